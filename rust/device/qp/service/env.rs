// SPDX-License-Identifier: GPL-2.0

//! What the transport of a connected QP asks for while it handles a packet: places for data, keys
//! of the peer, receives.

use crate::device::counters::Count;
use crate::device::cq::completion::Completion;
use crate::device::mem::error::MemError;
use crate::device::mem::grant::{Grant, MkeyCache};
use crate::device::packet::kept::KeptPackets;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::qp::context::QpContext;
use crate::device::qp::local_ops;
use crate::device::qp::progress::Deferred;
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::device::qp::service::remote::{self, lookup};
use crate::device::qp::service::resources::ReadKeys;
use crate::proto::transport::{
    AccessError, AtomicOp, Flush, PlaceError, RecvCompletion, RecvStart, Request, RequestQueue,
    RequesterOps, ResponderOps, Status, Streaks,
};
use crate::proto::wire::PacketRepr;
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;

/// The parts of the QP that the transport uses while it handles a packet.
pub(super) struct Env<'a> {
    pub(super) qp: &'a QpContext,
    pub(super) packet: RxPacket<'a>,
    pub(super) sq: &'a mut SendQueue,
    pub(super) rq: &'a mut RecvQueue,
    pub(super) read_keys: &'a mut ReadKeys,
    pub(super) write_key: &'a mut Option<Grant>,
    pub(super) peer_cache: &'a mut MkeyCache,
    pub(super) kept: &'a mut KeptPackets,
    pub(super) deferred: &'a mut Deferred,
}

impl Env<'_> {
    /// Looks up a key that the peer named.
    #[inline]
    fn lookup(&mut self, key: u32, range: (u64, u32), access: Access) -> Result<Grant, MemError> {
        lookup(self.qp, key, range, access, self.peer_cache)
    }
}

impl RequestQueue for Env<'_> {
    #[inline]
    fn tail(&self) -> u32 {
        self.sq.tail()
    }

    #[inline]
    fn get(&self, n: u32) -> Option<&Request> {
        self.sq.get(n)
    }

    #[inline]
    fn get_mut(&mut self, n: u32) -> Option<&mut Request> {
        self.sq.get_mut(n)
    }

    #[inline]
    fn streaks(&self) -> Streaks {
        self.sq.streaks()
    }

    #[inline]
    fn set_streaks(&self, streaks: Streaks) {
        self.sq.set_streaks(streaks);
    }
}

impl RequesterOps for Env<'_> {
    #[inline]
    fn place(&mut self, n: u32, offset: u32) -> Result<(), PlaceError> {
        self.packet.for_payload(|at, bytes| {
            let at = offset.wrapping_add(at);
            Ok(self.sq.scatter(n, at, bytes)?)
        })
    }

    #[inline]
    fn place_atomic(&mut self, n: u32, original: u64) -> Result<(), PlaceError> {
        let original = original.to_ne_bytes();
        Ok(self.sq.scatter(n, 0, StridedSrc::new(&original))?)
    }

    #[inline]
    fn finish_read(&mut self, n: u32) -> Result<(), Status> {
        local_ops::finish_read(self.qp, self.sq, n)
    }

    fn overlap(&self, n: u32, other: u32) -> bool {
        self.sq.overlap(n, other)
    }
}

impl ResponderOps for Env<'_> {
    #[inline]
    fn recv_start(&mut self) -> RecvStart {
        self.rq.start(&self.qp.mkeys, &mut self.deferred.srq_limit)
    }

    #[inline]
    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError> {
        self.packet
            .for_payload(|at, bytes| self.rq.place(offset.wrapping_add(at), bytes))
    }

    #[inline]
    fn recv_done(&mut self, completion: RecvCompletion) {
        if let Some(wr_id) = self.rq.finish() {
            let wc = Completion::recv(self.qp.id(), wr_id, &completion);
            self.deferred.recv.merge(self.qp.complete_recv(&wc));
        }
    }

    #[inline]
    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        *self.write_key = None;
        *self.write_key = Some(self.lookup(rkey, (va, len), Access::REMOTE_WRITE)?);
        Ok(())
    }

    #[inline]
    fn write_place(&mut self, offset: u32) -> Result<(), AccessError> {
        let grant = self.write_key.as_ref().ok_or(AccessError::Access)?;
        let place = grant.writer(offset, self.packet.total_len())?;
        self.packet
            .for_payload(|at, bytes| Ok(place.put(at, bytes)?))
    }

    #[inline]
    fn read_start(&mut self, res: u8, va: u64, rkey: u32, len: u32) -> Result<(), AccessError> {
        let grant = self.lookup(rkey, (va, len), Access::REMOTE_READ);
        let place = self.read_keys.get_mut(usize::from(res));
        let place = place.ok_or(AccessError::Op)?;
        *place = None;
        *place = Some(grant?);
        Ok(())
    }

    fn atomic(&mut self, va: u64, rkey: u32, op: AtomicOp) -> Result<u64, AccessError> {
        remote::atomic(self.qp, va, rkey, op, self.peer_cache)
    }

    fn atomic_write(&mut self, va: u64, rkey: u32) -> Result<(), AccessError> {
        remote::atomic_write(self.qp, va, rkey, &self.packet, self.peer_cache)
    }

    fn flush(&mut self, flush: &Flush) -> Result<(), AccessError> {
        remote::flush(self.qp, flush, self.peer_cache)
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), AccessError> {
        // The grant of the peer's latest WRITE may be one of that key.
        *self.write_key = None;
        let (peer, qpn) = (self.qp.peer(), self.qp.qpn);
        Ok(self.qp.mkeys.invalidate(peer, qpn, rkey)?)
    }

    #[cold]
    fn keep(&mut self, _pkt: &PacketRepr) -> bool {
        let RxPacket::Wire(packet) = self.packet else {
            return false;
        };
        let quota = (&self.qp.port.kept, &self.qp.owner);
        let kept = self.kept.keep(quota, self.sq.payer(), packet).is_ok();
        if kept {
            self.qp.port.counters.count(Count::KeptRequests);
        }
        kept
    }
}
