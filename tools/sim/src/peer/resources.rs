// SPDX-License-Identifier: GPL-2.0

//! The foreign peer's responder resources: READs, atomics, ATOMIC WRITEs and FLUSHes that a
//! duplicate may ask for again (IBTA 9.4.4, 9.7.5.1.3, IBTA annex A19.4).

use super::attr::Attr;
use super::responder::{Message, Refusal, Responder, INVALID};
use super::response::{Resource, Response};
use crate::api::*;
use oxe_proto::wire::{Kind, PacketRepr, RethRepr};

impl Responder {
    /// A free resource for a READ or atomic, unless the peer has more outstanding than it may
    /// (IBTA 9.4.4).
    fn vacancy(&self) -> Result<u8, Refusal> {
        // Repeated responses do not count: a peer that sends new requests does not need them.
        let due = |answer: &&Response| match answer {
            Response::Read { again, .. } | Response::Atomic { again, .. } => !again,
            Response::Ack { .. } => false,
        };
        if self.answers.iter().filter(due).count() >= self.limit {
            return Err(INVALID);
        }
        Ok(self.next_res)
    }

    /// Makes the resource of the expected packet, which is accepted now.
    fn resource(
        &mut self,
        packets: u64,
        read: Option<(u64, u32, u32)>,
        original: Option<u64>,
    ) -> Resource {
        self.msn = (self.msn + 1) & 0xff_ffff;
        let resource = Resource {
            res: self.next_res,
            first: self.expected,
            end: self.expected + packets,
            from: self.expected,
            msn: self.msn,
            read,
            original,
        };
        // The response of the resource that is reused is dropped: a peer that sends a new request
        // has received it.
        self.answers.retain(|answer| match answer {
            Response::Read { resource: old, .. } | Response::Atomic { resource: old, .. } => {
                old.res != resource.res
            }
            Response::Ack { .. } => true,
        });
        self.expected = resource.end;
        self.next_res = ((usize::from(self.next_res) + 1) % self.limit) as u8;
        if self.resources.len() == self.limit {
            self.resources.pop_front();
        }
        self.resources.push_back(resource);
        resource
    }

    pub(super) fn read<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let (Some(reth), Message::None, true) = (pkt.ext.reth(), self.message, attr.access.read)
        else {
            return Err(INVALID);
        };
        let res = self.vacancy()?;
        let RethRepr { va, rkey, dma_len } = reth;
        if dma_len > 0 {
            target.read_start(res, va, rkey, dma_len)?;
        }
        let packets = attr.packets(dma_len);
        let resource = self.resource(packets, Some((va, rkey, dma_len)), None);
        self.answers.push_back(Response::Read {
            resource,
            va,
            from: resource.first,
            next: resource.first,
            len: dma_len,
            again: false,
        });
        Ok(())
    }

    pub(super) fn atomic<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let (Some(eth), Message::None, true) = (pkt.ext.atomic(), self.message, attr.access.atomic)
        else {
            return Err(INVALID);
        };
        self.vacancy()?;
        let op = match pkt.bth.opcode.kind() {
            Kind::CompareSwap => AtomicOp::CompareSwap {
                compare: eth.compare,
                swap: eth.swap_add,
            },
            _ => AtomicOp::FetchAdd { add: eth.swap_add },
        };
        let original = target.atomic(eth.va, eth.rkey, op)?;
        let resource = self.resource(1, None, Some(original));
        let again = false;
        self.answers.push_back(Response::Atomic { resource, again });
        Ok(())
    }

    /// An ATOMIC WRITE or FLUSH (IBTA annex A19.4).
    pub(super) fn placement<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let (Some(reth), Message::None) = (pkt.ext.reth(), self.message) else {
            return Err(INVALID);
        };
        self.vacancy()?;
        if let Some(feth) = pkt.ext.feth() {
            let refused = feth.is_global() && !attr.access.flush_global
                || feth.is_persistent() && !attr.access.flush_persistent;
            if !feth.is_valid() || refused || payload_len != 0 {
                return Err(INVALID);
            }
            target.flush(&Flush {
                rkey: reth.rkey,
                range: (!feth.is_whole_region()).then_some((reth.va, reth.dma_len)),
                global: feth.is_global(),
                persistent: feth.is_persistent(),
            })?;
        } else {
            if !attr.access.write || payload_len != 8 || reth.dma_len != 8 || reth.va % 8 != 0 {
                return Err(INVALID);
            }
            target.atomic_write(reth.va, reth.rkey)?;
        }
        let resource = self.resource(1, None, None);
        let again = false;
        self.answers.push_back(Response::Atomic { resource, again });
        Ok(())
    }

    /// A request that was carried out before: a READ is carried out again, the response to an
    /// atomic, ATOMIC WRITE or FLUSH is sent again, and all else is acknowledged
    /// (IBTA 9.7.5.1.3).
    pub(super) fn duplicate<T: ResponderOps>(
        &mut self,
        at: u64,
        pkt: &PacketRepr,
        target: &mut T,
    ) -> Verdict {
        let kind = pkt.bth.opcode.kind();
        if matches!(kind, Kind::Send | Kind::Write) {
            self.acknowledge();
            return Verdict::Dropped(DropReason::Duplicate);
        }
        let known = self
            .resources
            .iter()
            .find(|r| (r.first..r.end).contains(&at));
        let Some(resource) = known.copied() else {
            return Verdict::Dropped(DropReason::UnknownDuplicate);
        };
        let reth = pkt.ext.reth().filter(|_| kind == Kind::ReadRequest);
        let (Some(reth), Some(_)) = (reth, resource.read) else {
            let again = true;
            self.answers.push_back(Response::Atomic { resource, again });
            return Verdict::Dropped(DropReason::Duplicate);
        };
        if self.style.narrows_reads && at < resource.from {
            return Verdict::Dropped(DropReason::UnknownDuplicate);
        }
        for known in &mut self.resources {
            if known.first == resource.first {
                known.from = at;
            }
        }
        let RethRepr { va, rkey, dma_len } = reth;
        if dma_len > 0 && target.read_start(resource.res, va, rkey, dma_len).is_err() {
            return Verdict::Dropped(DropReason::StaleKey);
        }
        // A response in progress starts again.
        let due = self.answers.iter().enumerate().find_map(|(i, a)| match a {
            Response::Read {
                resource: r, again, ..
            } if r.first == resource.first => Some((i, *again)),
            _ => None,
        });
        let answer = Response::Read {
            resource,
            va,
            from: at,
            next: at,
            len: dma_len,
            again: due.is_none_or(|(_, again)| again),
        };
        match due {
            Some((i, _)) => self.answers[i] = answer,
            None => self.answers.push_back(answer),
        }
        Verdict::Dropped(DropReason::Duplicate)
    }
}
