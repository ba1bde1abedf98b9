// SPDX-License-Identifier: GPL-2.0

//! The consumer's side of a ring of receive WQEs. It knows no queue pair: a WQE that was taken is
//! in use by the queue pair that took it (see `qp/recv_queue`).

use super::ring::Ring;
use super::uabi::wqe::{RxeRecvWqe, RxeSge};
use crate::proto::transport::Status;
use core::mem::size_of;
use core::ops::Range;
use kernel::prelude::*;

/// A WQE that was taken.
pub(crate) struct Taken {
    pub(crate) wr_id: u64,
    /// The number of its SGEs, or the status of a WQE that is invalid.
    pub(crate) sges: Result<u32, Status>,
}

/// WQEs that were posted at some time. They stay in the memory of the ring, also when they are
/// taken, until the producer writes others in their place.
pub(crate) struct Posted {
    ring: Ring,
    head: u32,
    count: u32,
}

impl Posted {
    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// The ring. The caller serialises the calls. Posting has no doorbell: the driver looks at the ring
/// when a message needs a WQE.
pub(crate) struct RecvRing {
    ring: Ring,
    max_sge: u32,
    /// The ring's index of the next WQE.
    head: u32,
    /// No more WQEs may be posted.
    refusing: bool,
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
            refusing: false,
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
        if self.posted() == 0 {
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

    /// Takes the next WQE, if one is posted, and releases its element. Returns its wr_id.
    pub(crate) fn flush_one(&mut self) -> Option<u64> {
        let taken = self.take(|_, _| Ok(()))?;
        self.release();
        Some(taken.wr_id)
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

    /// How many WQEs are posted and not taken.
    #[inline]
    pub(crate) fn posted(&self) -> u32 {
        self.ring.distance(self.head, self.ring.producer())
    }

    /// The WQEs that are posted now.
    pub(crate) fn snapshot(&self) -> Posted {
        Posted {
            ring: self.ring.clone(),
            head: self.head,
            count: self.posted(),
        }
    }

    /// Copies WQEs `which` of `posted` to this ring, which is not in use yet. EINVAL if they are
    /// more than it holds.
    pub(crate) fn copy(&self, posted: &Posted, which: Range<u32>) -> Result {
        if which.len() > self.ring.capacity() as usize {
            return Err(EINVAL);
        }
        for index in which {
            self.copy_one(posted, index).ok_or(EINVAL)?;
        }
        Ok(())
    }

    /// Copies one WQE, with the SGEs that it says it has.
    fn copy_one(&self, posted: &Posted, index: u32) -> Option<()> {
        let from = posted.head.wrapping_add(index);
        let wqe: RxeRecvWqe = posted.ring.load(from, 0)?;
        self.ring.store(index, 0, &wqe)?;
        let mut at = RxeRecvWqe::DATA;
        for _ in 0..wqe.dma.head.num_sge.min(self.max_sge) {
            let sge: RxeSge = posted.ring.load(from, at)?;
            self.ring.store(index, at, &sge)?;
            at = at.wrapping_add(size_of::<RxeSge>());
        }
        Some(())
    }

    /// Takes the place of `old`, from which `posted` was copied: WQEs that were taken there
    /// meanwhile are taken here. With `more`, copies those that were posted meanwhile. Returns the
    /// producer's index. EINVAL if there are more than the ring holds.
    pub(crate) fn replace(&mut self, old: &RecvRing, posted: &Posted, more: bool) -> Result<u32> {
        let taken = old.head.wrapping_sub(posted.head);
        let mut end = posted.count;
        if more {
            let now = old.posted();
            if now > self.ring.capacity() {
                return Err(EINVAL);
            }
            end = taken.wrapping_add(now);
            self.copy(posted, posted.count..end)?;
        }
        self.head = taken;
        self.ring.set_producer(end);
        self.release();
        Ok(end)
    }

    /// Releases the elements of all WQEs that were taken to the consumer, which may post as many
    /// again.
    #[inline]
    pub(crate) fn release(&self) {
        let free = self.head.wrapping_add(u32::from(self.refusing));
        self.ring.set_consumer(free);
    }

    /// From now on the ring reads as full once all its WQEs are taken: the index of the consumer is
    /// the next one after that of the producer. A WQE that is being posted at this moment is found
    /// later.
    pub(crate) fn refuse(&mut self) {
        self.refusing = true;
        self.release();
    }

    /// Drops all posted WQEs.
    pub(crate) fn clear(&mut self) {
        self.head = self.ring.producer();
        self.release();
    }
}
