// SPDX-License-Identifier: GPL-2.0

//! The consumer's side of a ring of receive WQEs. It knows no queue pair: a WQE that was taken is
//! in use by the queue pair that took it (see `qp/recv_queue`).

use super::ring::Ring;
use super::uabi::wqe::{RxeRecvWqe, RxeSge};
use crate::proto::transport::Status;
use core::mem::size_of;
use kernel::prelude::*;

/// A WQE that was taken.
pub(crate) struct Taken {
    pub(crate) wr_id: u64,
    /// The number of its SGEs, or the status of a WQE that is invalid.
    pub(crate) sges: Result<u32, Status>,
}

/// The ring. The caller serialises the calls. Posting has no doorbell: the driver looks at the ring
/// when a message needs a WQE.
pub(crate) struct RecvRing {
    ring: Ring,
    max_sge: u32,
    /// The ring's index of the next WQE.
    head: u32,
}

impl RecvRing {
    /// Makes an empty ring for `max_wr` WQEs of `max_sge` SGEs.
    ///
    /// Process context. EINVAL if the sizes are beyond any limit, ENOMEM.
    pub(crate) fn new(max_wr: u32, max_sge: u32, user: bool) -> Result<Self> {
        let room = max_sge as usize * size_of::<RxeSge>();
        Ok(RecvRing {
            ring: Ring::new(max_wr, RxeRecvWqe::DATA + room, user)?,
            max_sge,
            head: 0,
        })
    }

    /// The ring, for mapping and for posting by the kernel.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Takes the next WQE, if one is posted, and passes each of its SGEs to `each` with its index.
    /// Its element stays in use until [`RecvRing::release`].
    #[inline]
    pub(crate) fn take(
        &mut self,
        each: impl FnMut(usize, &RxeSge) -> Result<(), Status>,
    ) -> Option<Taken> {
        if self.ring.distance(self.head, self.ring.producer()) == 0 {
            return None;
        }
        let wqe: RxeRecvWqe = self.ring.load(self.head, 0)?;
        let sges = self.load_sges(wqe.dma.head.num_sge, each);
        self.head = self.head.wrapping_add(1);
        Some(Taken {
            wr_id: wqe.wr_id,
            sges,
        })
    }

    #[inline]
    fn load_sges(
        &self,
        num_sge: u32,
        mut each: impl FnMut(usize, &RxeSge) -> Result<(), Status>,
    ) -> Result<u32, Status> {
        if num_sge > self.max_sge {
            return Err(Status::LocQpOp);
        }
        let mut at = RxeRecvWqe::DATA;
        for index in 0..num_sge as usize {
            let sge = self.ring.load(self.head, at).ok_or(Status::LocQpOp)?;
            each(index, &sge)?;
            at = at.wrapping_add(size_of::<RxeSge>());
        }
        Ok(num_sge)
    }

    /// Releases the elements of all WQEs that were taken to the consumer, who may post as many
    /// again.
    #[inline]
    pub(crate) fn release(&self) {
        self.ring.set_consumer(self.head);
    }

    /// Drops all posted WQEs.
    pub(crate) fn clear(&mut self) {
        self.head = self.ring.producer();
        self.release();
    }
}
