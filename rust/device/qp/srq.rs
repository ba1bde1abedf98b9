// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (IBTA 10.2.9): one ring of receives for many queue pairs.
//!
//! The ring is memory that a process may write. A malformed WQE there harms the queue pairs of this
//! queue alone. A queue pair takes a WQE for good: completing or flushing it is the queue pair's
//! task, and other queue pairs go on with the next one.

use super::producer::WqProducer;
use crate::device::limits;
use crate::device::pd::{PdId, PdObject};
use crate::device::recv_ring::{RecvRing, Taken};
use crate::device::uabi::resp::{MmInfo, RxeCreateSrqResp, RxeModifySrqCmd};
use crate::device::uabi::wqe::RxeSge;
use crate::proto::transport::Status;
use crate::rdma::details::Details;
use crate::rdma::events::SrqEvents;
use crate::rdma::mmap::Cookie;
use crate::rdma::srq::{SrqAttr, SrqChange};
use crate::rdma::udata::UserCtx;
use crate::rdma::wr::RecvWr;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::{Counted, Quota};
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

/// The state that the queue's lock guards. A queue pair may hold its own lock when it takes this
/// one.
struct State {
    ring: RecvRing,
    /// When fewer WQEs are left, an event is due. 0 once it was raised.
    limit: u32,
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    pd: PdId,
    max_sge: u32,
    user: bool,
    #[pin]
    state: SpinLockBh<State>,
    #[pin]
    producer: WqProducer,
    /// Keeps the ring mappable. Held during a resize, so that there is one at a time.
    #[pin]
    cookie: Mutex<Option<Cookie>>,
    events: SrqEvents,
}

/// The Rust part of an ib_srq.
pub(crate) struct SrqObject {
    _counted: Counted,
    pub(crate) srq: Arc<Srq>,
}

/// Makes the ring mappable for the process that calls.
fn publish(user: &UserCtx<'_>, ring: &RecvRing) -> Result<(Cookie, MmInfo)> {
    let buf = ring.ring().buf();
    let (cookie, offset) = user.publish(buf)?;
    Ok((cookie, MmInfo::new(offset, buf.len())))
}

impl Srq {
    /// Makes a queue for at least `wanted.max_wr` receives, which `quota` counts; returns it and
    /// its attributes.
    ///
    /// Process context. EINVAL for sizes out of the device's limits, and for a limit beyond the
    /// size; ENOMEM, also when there are too many; EFAULT.
    pub(crate) fn create(
        quota: &Arc<Quota>,
        pd: &PdObject,
        wanted: &SrqAttr,
        events: SrqEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<(SrqObject, SrqAttr)> {
        let counted = Counted::new(quota, &pd.owner)?;
        let srq = Self::new(pd.id, wanted, events, user)?;
        let attr = srq.query();
        let object = SrqObject {
            _counted: counted,
            srq,
        };
        Ok((object, attr))
    }

    fn new(
        pd: PdId,
        wanted: &SrqAttr,
        events: SrqEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<Arc<Self>> {
        if wanted.max_sge > limits::MAX_SGE {
            return Err(EINVAL);
        }
        let ring = new_ring(wanted.max_wr, wanted.max_sge, user.is_some())?;
        if wanted.limit > ring.ring().capacity() {
            return Err(EINVAL);
        }
        let cookie = match &user {
            Some(user) => {
                let (cookie, mi) = publish(user, &ring)?;
                user.respond(&RxeCreateSrqResp {
                    mi,
                    srq_num: 0,
                    reserved: 0,
                })?;
                Some(cookie)
            }
            None => None,
        };
        let producer = WqProducer::new(ring.ring().clone(), wanted.max_sge, 0);
        let state = State {
            ring,
            limit: wanted.limit,
        };
        Arc::pin_init(
            pin_init!(Srq {
                pd,
                max_sge: wanted.max_sge,
                user: user.is_some(),
                state <- new_spinlock_bh!(state, "oxe_srq"),
                producer <- producer,
                cookie <- kernel::new_mutex!(cookie, "oxe_srq_resize"),
                events,
            }),
            GFP_CHARGED,
        )
    }

    /// The queue is destroyed: no new mapping of its ring can be made. Process context.
    pub(crate) fn close(&self) {
        let cookie = self.cookie.lock().take();
        drop(cookie);
    }

    /// The protection domain, which the keys of its SGEs must have.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// The most SGEs of a WQE.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Writes details: see debugging.rst, which describes each. Process context.
    pub(crate) fn details(&self, out: &mut Details) {
        let state = self.state.lock();
        let (posted, limit) = (state.ring.posted(), state.limit);
        drop(state);
        out.number(c"recvs", posted);
        out.number(c"limit", limit);
    }

    /// Returns all attributes. Process context.
    pub(crate) fn query(&self) -> SrqAttr {
        let state = self.state.lock();
        SrqAttr {
            max_wr: state.ring.ring().capacity(),
            max_sge: self.max_sge,
            limit: state.limit,
        }
    }

    /// Changes attributes: all or none.
    ///
    /// Process context. EINVAL for a size that the posted receives exceed, or out of the device's
    /// limits, and for a limit beyond the size; ENOMEM, EFAULT.
    pub(crate) fn modify(&self, change: &SrqChange, user: Option<UserCtx<'_>>) -> Result {
        let mut cookie = self.cookie.lock();
        let Some(max_wr) = change.max_wr else {
            return self.state.lock().set_limit(change.limit);
        };
        let mut ring = new_ring(max_wr, self.max_sge, self.user)?;
        let fresh = match &user {
            Some(user) => {
                let command: RxeModifySrqCmd = user.input()?;
                let (fresh, mi) = publish(user, &ring)?;
                user.write(command.mmap_info_addr, &mi)?;
                Some(fresh)
            }
            None => None,
        };
        self.replace(&mut ring, change.limit)?;
        // The process may keep the old ring mapped. Nothing is taken from it any more.
        *cookie = fresh;
        Ok(())
    }

    /// Changes over to the ring `new`, to which the posted receives move. Leaves the old one in
    /// `new`.
    fn replace(&self, new: &mut RecvRing, limit: Option<u32>) -> Result {
        // There may be a million of them. Queue pairs go on taking from the old ring meanwhile.
        let posted = self.state.lock().ring.snapshot();
        new.copy(&posted, 0..posted.count())?;
        let mut state = self.state.lock();
        let limit = limit.unwrap_or(state.limit);
        if limit > new.ring().capacity() {
            return Err(EINVAL);
        }
        self.producer.replace(|ring| {
            // A kernel user may have posted more. A process posts nothing during a resize.
            let end = new.replace(&state.ring, &posted, !self.user)?;
            *ring = new.ring().clone();
            Ok(end)
        })?;
        core::mem::swap(&mut state.ring, new);
        state.limit = limit;
        Ok(())
    }

    /// Takes the next WQE, as [`RecvRing::take`] does, for good. Also returns whether the limit is
    /// reached; the caller passes that to [`Srq::report_limit`] when it holds no lock.
    ///
    /// Softirq or process context.
    #[inline]
    pub(crate) fn take(
        &self,
        each: impl FnMut(usize, &RxeSge) -> Result<(), Status>,
    ) -> (Option<Taken>, bool) {
        let mut state = self.state.lock();
        let taken = state.ring.take(each);
        state.ring.release();
        let reached = state.ring.posted() < state.limit;
        if reached {
            state.limit = 0;
        }
        (taken, reached)
    }

    /// Takes the next WQE to flush it: returns its wr_id. Reports no limit.
    pub(crate) fn flush_one(&self) -> Option<u64> {
        self.state.lock().ring.flush_one()
    }

    /// From now on the process cannot post.
    pub(crate) fn refuse(&self) {
        self.state.lock().ring.refuse();
    }

    /// Reports that the limit is reached. Any context, no lock held.
    #[cold]
    pub(crate) fn report_limit(&self) {
        self.events.limit_reached();
    }

    /// Posts a receive request of a kernel user. Any context; errors as for [`WqProducer::recv`].
    pub(crate) fn post(&self, wr: &RecvWr<'_>) -> Result {
        self.producer.recv(wr)
    }
}

impl State {
    /// Sets the limit, if there is one to be set. EINVAL if it is beyond the size.
    fn set_limit(&mut self, limit: Option<u32>) -> Result {
        let limit = limit.unwrap_or(self.limit);
        if limit > self.ring.ring().capacity() {
            return Err(EINVAL);
        }
        self.limit = limit;
        Ok(())
    }
}

/// A ring of the size that was asked for; EINVAL if it is out of the device's limits.
fn new_ring(max_wr: u32, max_sge: u32, user: bool) -> Result<RecvRing> {
    if max_wr == 0 || max_wr > limits::MAX_SRQ_WR {
        return Err(EINVAL);
    }
    RecvRing::new(max_wr, max_sge, user)
}
