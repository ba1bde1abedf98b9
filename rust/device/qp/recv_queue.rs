// SPDX-License-Identifier: GPL-2.0

//! The receive queue: the posted ring, and the one request in use.

use crate::device::mem::mr::Mr;
use crate::device::mem::sge::{self, Sge};
use crate::device::pd::PdId;
use crate::device::ring::Ring;
use crate::device::uabi::wqe::{RxeRecvWqe, RxeSge};
use crate::device::Core;
use crate::proto::transport::{RecvStart, Status};
use crate::rdma::strided::StridedSrc;
use crate::sync::memory::GFP_CHARGED;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The request in use.
struct Current {
    wr_id: u64,
    sges: u32,
    total: u32,
}

/// The receive queue of one QP; the QP's lock guards it. Posting has no doorbell: the driver looks
/// at the ring when a message needs a request.
pub(crate) struct RecvQueue {
    ring: Ring,
    pd: PdId,
    max_sge: u32,
    /// The ring's index of the next request.
    head: u32,
    current: Option<Current>,
    sges: KVec<Sge>,
    /// The MR that the latest lookup found.
    mr_cache: Option<Arc<Mr>>,
}

impl RecvQueue {
    /// Makes an empty queue for `max_wr` requests of `max_sge` SGEs.
    ///
    /// Process context. ENOMEM.
    pub(crate) fn new(pd: PdId, max_wr: u32, max_sge: u32, user: bool) -> Result<Self> {
        let room = max_sge as usize * size_of::<RxeSge>();
        let ring = Ring::new(max_wr, RxeRecvWqe::DATA + room, user)?;
        let mut sges = KVec::with_capacity(max_sge as usize, GFP_CHARGED)?;
        for _ in 0..max_sge {
            sges.push(Sge::default(), GFP_CHARGED)?;
        }
        Ok(RecvQueue {
            ring,
            pd,
            max_sge,
            head: 0,
            current: None,
            sges,
            mr_cache: None,
        })
    }

    /// The ring, for mapping and for posting by the kernel.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Drops everything, posted requests included.
    pub(crate) fn reset(&mut self) {
        self.clear();
        self.mr_cache = None;
        self.head = self.ring.producer();
        self.ring.set_consumer(self.head);
    }

    /// Takes the next posted request into use.
    #[inline]
    pub(crate) fn start(&mut self, core: &Core) -> RecvStart {
        if self.ring.distance(self.head, self.ring.producer()) == 0 {
            return RecvStart::Empty;
        }
        let Some(wqe) = self.ring.load::<RxeRecvWqe>(self.head, 0) else {
            return RecvStart::Empty;
        };
        self.current = Some(Current {
            wr_id: wqe.wr_id,
            sges: 0,
            total: 0,
        });
        match self.load(core, wqe.wr_id, wqe.dma.head.num_sge) {
            Ok(()) => RecvStart::Taken,
            Err(status) => {
                self.forget_sges();
                RecvStart::LocalError(status)
            }
        }
    }

    fn load(&mut self, core: &Core, wr_id: u64, num_sge: u32) -> Result<(), Status> {
        if num_sge > self.max_sge {
            return Err(Status::LocQpOp);
        }
        let mut at = RxeRecvWqe::DATA;
        let count = num_sge as usize;
        for place in self.sges.iter_mut().take(count) {
            let raw: RxeSge = self.ring.load(self.head, at).ok_or(Status::LocQpOp)?;
            at = at.wrapping_add(size_of::<RxeSge>());
            *place = Sge::resolve(core, self.pd, &raw, true, &mut self.mr_cache)?;
        }
        let list = self.sges.get(..count).unwrap_or_default();
        let total = sge::total(list).ok_or(Status::LocLen)?;
        self.current = Some(Current {
            wr_id,
            sges: num_sge,
            total,
        });
        Ok(())
    }

    /// Copies bytes into the request in use.
    ///
    /// LocLen if they do not fit, LocProt if the memory is gone.
    #[inline]
    pub(crate) fn place(&self, offset: u32, bytes: StridedSrc<'_>) -> Result<(), Status> {
        let current = self.current.as_ref().ok_or(Status::LocQpOp)?;
        let end = (bytes.len() as u64).saturating_add(u64::from(offset));
        if end > u64::from(current.total) {
            return Err(Status::LocLen);
        }
        let list = self.sges.get(..current.sges as usize).unwrap_or_default();
        Ok(sge::scatter(list, offset, bytes)?)
    }

    /// How many bytes the request in use holds.
    pub(crate) fn room(&self) -> u32 {
        self.current.as_ref().map_or(0, |current| current.total)
    }

    /// Completes the request in use: returns its wr_id, and releases its element to the consumer.
    #[inline]
    pub(crate) fn finish(&mut self) -> Option<u64> {
        let wr_id = self.current.as_ref()?.wr_id;
        self.clear();
        self.head = self.head.wrapping_add(1);
        self.ring.set_consumer(self.head);
        Some(wr_id)
    }

    /// Puts the request in use back to the front of the queue. The consumer sees no change.
    pub(crate) fn put_back(&mut self) {
        self.clear();
    }

    /// Flushes the next request, the one in use first: returns its wr_id, and releases its element.
    pub(crate) fn flush_one(&mut self) -> Option<u64> {
        if self.current.is_none() {
            if self.ring.distance(self.head, self.ring.producer()) == 0 {
                return None;
            }
            let wqe: RxeRecvWqe = self.ring.load(self.head, 0)?;
            self.current = Some(Current {
                wr_id: wqe.wr_id,
                sges: 0,
                total: 0,
            });
        }
        self.finish()
    }

    fn clear(&mut self) {
        if self.current.take().is_some() {
            self.forget_sges();
        }
    }

    fn forget_sges(&mut self) {
        for sge in self.sges.iter_mut() {
            *sge = Sge::default();
        }
    }
}
