// SPDX-License-Identifier: GPL-2.0

//! READs and atomics of the peer: each takes a responder resource (IBTA 9.4.4, 9.4.5, 9.7.7).

use super::common::{AtomicOp, Attr, ResponderOps, MAX_MESSAGE};
use super::resource::{Resource, ResourceKind};
use super::wire::{Ext, Kind, PacketRepr};
use super::{Refusal, Responder};

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// Executes a READ: it takes a responder resource, from which the responder sends the response
    /// packet by packet.
    pub(super) fn execute_read<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let reth = pkt.ext.reth().ok_or(Refusal::Invalid)?;
        if !self.reassembly.is_idle() || !attr.access.read || reth.dma_len > MAX_MESSAGE {
            return Err(Refusal::Invalid);
        }
        // IBTA 9.4.4, 9.7.4.1.4: more outstanding than max_dest_rd_atomic.
        let res = self.ring.vacancy().ok_or(Refusal::Invalid)?;
        if reth.dma_len > 0 {
            ops.read_start(res, reth.va, reth.rkey, reth.dma_len)?;
        }
        let kind = ResourceKind::Read {
            va: reth.va,
            rkey: reth.rkey,
            len: reth.dma_len,
        };
        self.record(kind, attr);
        Ok(())
    }

    /// Executes an atomic, and records its result.
    pub(super) fn execute_atomic<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let Ext::Atomic(eth) = pkt.ext else {
            return Err(Refusal::Invalid);
        };
        // IBTA 9.4.5: the address must be a multiple of 8.
        let vacant = self.reassembly.is_idle() && self.ring.vacancy().is_some();
        if !attr.access.atomic || eth.va & 7 != 0 || !vacant {
            return Err(Refusal::Invalid);
        }
        let op = if pkt.bth.opcode.kind() == Kind::CompareSwap {
            AtomicOp::CompareSwap {
                compare: eth.compare,
                swap: eth.swap_add,
            }
        } else {
            AtomicOp::FetchAdd { add: eth.swap_add }
        };
        let original = ops.atomic(eth.va, eth.rkey, op)?;
        self.record(ResourceKind::Atomic { original }, attr);
        Ok(())
    }

    /// Records an accepted request that has a response of its own, and the expected PSN.
    pub(super) fn record(&mut self, kind: ResourceKind, attr: &Attr) {
        self.count_message();
        let was_nak = self.is_nak_due();
        let begin = self.epsn;
        let resource = Resource::new(kind, begin, self.msn, attr.pmtu);
        self.epsn = self.epsn.add(resource.psns());
        self.last_response = Some(self.epsn.prev());
        self.ring.push(resource);
        // The response acknowledges all requests before it (IBTA 9.7.5.1.1): an ACK that is due
        // need not be sent, and a NAK that asked for this packet must not be.
        self.ack.cancel();
        if self.gap_known {
            self.close_gap(begin, true, was_nak);
        }
    }
}
