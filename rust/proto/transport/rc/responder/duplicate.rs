// SPDX-License-Identifier: GPL-2.0

//! Duplicate request packets: the peer retransmitted because a response was lost, or the network
//! duplicated the packet. The responder responds again and carries out READs alone again
//! (IBTA 9.7.5.1.3): a second ATOMIC WRITE might undo a later store, and a second FLUSH has no
//! effect (IBTA annex A19.4).

use super::common::{Attr, DropReason, ResponderOps, Verdict};
use super::resource::Resource;
use super::wire::{Kind, PacketRepr, Psn};
use super::Responder;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// Handles a request packet that was carried out before (IBTA 9.7.5.1.3).
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
                // The key may be invalid by now. The packet may be an old copy, and the peer may
                // know that the key is gone, so this does not end the connection.
                if reth.dma_len > 0
                    && ops
                        .read_start(part.res, reth.va, reth.rkey, reth.dma_len)
                        .is_err()
                {
                    return Verdict::Dropped(DropReason::StaleKey);
                }
                self.ring.replay_read(part, attr.pmtu);
            }
            Kind::Send | Kind::Write if pkt.bth.ack_req && self.owes_report() => self.report_gap(),
            Kind::Send | Kind::Write => self.acknowledge_again(psn),
            kind => {
                if !self.ring.replay_saved(psn, kind) {
                    return Verdict::Dropped(DropReason::UnknownDuplicate);
                }
            }
        }
        Verdict::Dropped(DropReason::Duplicate)
    }

    /// Acknowledges a duplicate packet of a SEND or WRITE, with the newest PSN that was carried
    /// out. If a READ or atomic came after the packet, with the packet's own PSN: the peer must not
    /// take the ACK for that response. One ACK is due at a time, that with the later PSN. A NAK
    /// that is due acknowledges all duplicates.
    fn acknowledge_again(&mut self, psn: Psn) {
        let response_since = self
            .last_response
            .is_some_and(|last| is_later(last, psn, self.epsn));
        let psn = if response_since {
            psn
        } else {
            self.epsn.prev()
        };
        let epsn = self.epsn;
        self.ack
            .acknowledge_again(psn, |psn, other| is_later(psn, other, epsn));
    }
}

/// Whether `psn` is later than `other`. Both are before the expected PSN, `epsn`; the one nearer to
/// it is the later one.
fn is_later(psn: Psn, other: Psn, epsn: Psn) -> bool {
    epsn.offset_from(psn) < epsn.offset_from(other)
}
