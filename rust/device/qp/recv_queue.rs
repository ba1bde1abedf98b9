// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: where its WQEs come from, and the current one.

use super::srq::Srq;
use crate::device::mem::grant::MkeyCache;
use crate::device::mem::mkeys::Mkeys;
use crate::device::mem::sge::{self, Purpose, Sge};
use crate::device::pd::PdId;
use crate::device::recv_ring::RecvRing;
use crate::device::ring::Ring;
use crate::device::uabi::wqe::RxeSge;
use crate::proto::transport::{PlaceError, RecvStart, Status};
use crate::rdma::strided::StridedSrc;
use crate::sync::memory::GFP_CHARGED;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The current WQE: the one that was taken from the ring and is not complete.
struct Current {
    wr_id: u64,
    /// The number of its SGEs, and of the bytes that they hold.
    sges: u32,
    total: u32,
}

/// Where WQEs come from.
enum Source {
    /// The QP's own ring, which its lock guards.
    Own(RecvRing),
    /// A shared receive queue.
    Shared {
        srq: Arc<Srq>,
        /// The event was raised that says that no more WQEs are taken (IBTA 11.6.3.2, last WQE
        /// reached).
        last_reported: bool,
    },
}

/// The receive queue of one QP; the QP's lock guards it.
pub(crate) struct RecvQueue {
    source: Source,
    pd: PdId,
    current: Option<Current>,
    /// The SGEs of the current WQE.
    sges: KVec<Sge>,
    /// The result of the latest lookup of a key.
    mkey_cache: MkeyCache,
}

impl RecvQueue {
    /// Makes an empty queue for `max_wr` WQEs of `max_sge` SGEs.
    ///
    /// Process context. EINVAL if the sizes are beyond any limit, ENOMEM.
    pub(crate) fn new(pd: PdId, max_wr: u32, max_sge: u32, user: bool) -> Result<Self> {
        let ring = RecvRing::new(max_wr, max_sge, user)?;
        Self::with_source(Source::Own(ring), pd, max_sge)
    }

    /// Makes a queue whose WQEs come from `srq`. Process context. ENOMEM.
    pub(crate) fn shared(srq: &Arc<Srq>) -> Result<Self> {
        let source = Source::Shared {
            srq: srq.clone(),
            last_reported: false,
        };
        Self::with_source(source, srq.pd(), srq.max_sge())
    }

    fn with_source(source: Source, pd: PdId, max_sge: u32) -> Result<Self> {
        let mut sges = KVec::with_capacity(max_sge as usize, GFP_CHARGED)?;
        for _ in 0..max_sge {
            sges.push(Sge::default(), GFP_CHARGED)?;
        }
        Ok(RecvQueue {
            source,
            pd,
            current: None,
            sges,
            mkey_cache: None,
        })
    }

    /// The ring of its own, for mapping and for posting by the kernel.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        match &self.source {
            Source::Own(ring) => Some(ring.ring()),
            Source::Shared { .. } => None,
        }
    }

    /// How many WQEs are posted to its own ring, and not taken.
    pub(crate) fn posted(&self) -> Option<u32> {
        match &self.source {
            Source::Own(ring) => Some(ring.posted()),
            Source::Shared { .. } => None,
        }
    }

    /// Whether WQEs come from a shared receive queue.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.source, Source::Shared { .. })
    }

    /// Drops everything, WQEs posted to its own ring included.
    pub(crate) fn reset(&mut self) {
        self.drop_current();
        self.mkey_cache = None;
        match &mut self.source {
            Source::Own(ring) => ring.clear(),
            Source::Shared { last_reported, .. } => *last_reported = false,
        }
    }

    /// Takes the next WQE for a message. A current WQE is taken again: the message that it was
    /// taken for did not use it, as it was too long, or found a page of it missing. Sets
    /// `limit_reached` if the limit of a shared receive queue is.
    #[inline]
    pub(crate) fn start(&mut self, mkeys: &Mkeys, limit_reached: &mut bool) -> RecvStart {
        if self.current.is_some() {
            return RecvStart::Taken;
        }
        let RecvQueue {
            source,
            pd,
            sges,
            mkey_cache,
            ..
        } = self;
        let each = |index: usize, raw: &RxeSge| {
            let place: &mut Sge = sges.get_mut(index).ok_or(Status::LocQpOp)?;
            place.resolve(mkeys, *pd, raw, Purpose::Receive, mkey_cache)?;
            Ok(())
        };
        let taken = match source {
            Source::Own(ring) => ring.take(each),
            Source::Shared { srq, .. } => {
                let (taken, reached) = srq.take(each);
                *limit_reached |= reached;
                taken
            }
        };
        let Some(taken) = taken else {
            return RecvStart::Empty;
        };
        let list = |count: u32| sges.get(..count as usize).unwrap_or_default();
        let held = taken.sges.map(|count| (count, sge::total(list(count))));
        let (sges, total) = held.unwrap_or_default();
        self.current = Some(Current {
            wr_id: taken.wr_id,
            sges,
            total,
        });
        match held {
            Ok(_) => RecvStart::Taken,
            Err(status) => RecvStart::LocalError(status),
        }
    }

    /// Copies bytes into the current WQE.
    ///
    /// LocLen if they do not fit, LocProt if the memory is gone or its key invalid; NotPresent.
    // With its caller it would be compiled into one function with too many variables for registers:
    // 32 instructions more for each page.
    #[inline(never)]
    pub(crate) fn place(&self, offset: u32, bytes: StridedSrc<'_>) -> Result<(), PlaceError> {
        let current = self.current.as_ref().ok_or(Status::LocQpOp)?;
        let end = (bytes.len() as u64).saturating_add(u64::from(offset));
        if end > u64::from(current.total) {
            return Err(Status::LocLen.into());
        }
        let list = self.sges.get(..current.sges as usize).unwrap_or_default();
        Ok(sge::scatter(list, offset, bytes)?)
    }

    /// How many bytes the current WQE holds.
    pub(crate) fn remaining(&self) -> u32 {
        self.current.as_ref().map_or(0, |current| current.total)
    }

    /// Completes the current WQE: returns its wr_id, and releases its element to the consumer.
    #[inline]
    pub(crate) fn finish(&mut self) -> Option<u64> {
        let wr_id = self.drop_current()?;
        if let Source::Own(ring) = &self.source {
            ring.release();
        }
        Some(wr_id)
    }

    /// Flushes the next WQE, the current one first: returns its wr_id, and releases its element.
    /// WQEs of a shared receive queue stay there for other QPs (IBTA 10.2.9.3), unless `shared`.
    pub(crate) fn flush_one(&mut self, shared: bool) -> Option<u64> {
        if self.current.is_some() {
            return self.finish();
        }
        match &mut self.source {
            Source::Own(ring) => ring.flush_one(),
            Source::Shared { srq, .. } if shared => srq.flush_one(),
            Source::Shared { .. } => None,
        }
    }

    /// From now on the process cannot post receives.
    pub(crate) fn refuse(&mut self) {
        match &mut self.source {
            Source::Own(ring) => ring.refuse(),
            Source::Shared { srq, .. } => srq.refuse(),
        }
    }

    /// Whether the event is due that says that the QP takes no more WQEs from a shared receive
    /// queue. `true` once, until the queue is reset.
    pub(crate) fn report_last(&mut self) -> bool {
        match &mut self.source {
            Source::Own(_) => false,
            Source::Shared { last_reported, .. } => !core::mem::replace(last_reported, true),
        }
    }

    /// Drops the current WQE with its references to memory; returns its wr_id.
    #[inline]
    fn drop_current(&mut self) -> Option<u64> {
        let current = self.current.take()?;
        for sge in self.sges.iter_mut() {
            *sge = Sge::default();
        }
        Some(current.wr_id)
    }
}
