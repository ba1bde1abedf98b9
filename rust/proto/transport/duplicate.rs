// SPDX-License-Identifier: GPL-2.0

//! Request packets that come again, because an answer was lost or the network made two of one: they
//! are answered again and, but for READs, not carried out again (IBTA 9.7.5.1.3).

use super::responder::{Acknowledge, Responder};
use super::wire::{Kind, PacketRepr, Psn, Syndrome};
use super::{Attr, DropReason, Resource, ResponderOps, Verdict};

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// A request packet that was carried out before (IBTA 9.7.5.1.3).
    #[cold]
    pub(super) fn duplicate<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> Verdict {
        let psn = pkt.bth.psn;
        match pkt.bth.opcode.kind() {
            Kind::ReadRequest => {
                let part = pkt.ext.reth().and_then(|r| {
                    Some((self.ring.find_read(psn, r.va, r.rkey, r.dma_len, attr)?, r))
                });
                let Some((part, reth)) = part else {
                    return Verdict::Dropped(DropReason::UnknownDuplicate);
                };
                // The key may be gone. The peer may know, and this be a copy from the past, so that
                // it is no reason to end the connection.
                if reth.dma_len > 0
                    && ops
                        .read_start(part.res, reth.va, reth.rkey, reth.dma_len)
                        .is_err()
                {
                    return Verdict::Dropped(DropReason::StaleKey);
                }
                self.ring.replay_read(part, attr.pmtu);
            }
            kind if kind.is_atomic() => {
                if !self.ring.replay_atomic(psn) {
                    return Verdict::Dropped(DropReason::UnknownDuplicate);
                }
            }
            _ => self.acknowledge_again(psn),
        }
        Verdict::Dropped(DropReason::Duplicate)
    }

    /// Answers a repeated packet of a SEND or WRITE, with the newest PSN that was carried out. Not
    /// so when READs or atomics came after it: the peer must not take the ACK for their answer.
    fn acknowledge_again(&mut self, psn: Psn) {
        if let Some(ack) = &mut self.acknowledge {
            if ack.deadline.take().is_some() {
                self.delayed_ack.on_retransmission();
            }
            return;
        }
        let response_since = self.last_response.is_some_and(|last| {
            // Both are behind epsn; the nearer one is the later one.
            self.epsn.offset_from(last) < self.epsn.offset_from(psn)
        });
        self.acknowledge = Some(Acknowledge {
            syndrome: Syndrome::ACK,
            psn: if response_since {
                psn
            } else {
                self.epsn.prev()
            },
            deadline: None,
        });
    }
}
