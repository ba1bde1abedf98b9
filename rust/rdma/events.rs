// SPDX-License-Identifier: GPL-2.0

//! Upcalls to the users of completion queues, shared receive queues and queue pairs.
//!
//! The driver keeps a handle wherever completions and errors arise. A handle may outlive its
//! object: the glue revokes the object after the driver's destroy and before ib_core frees the C
//! structure. Revocation waits for upcalls in progress; later ones find the object revoked and do
//! nothing.

use super::qp::QpToken;
use crate::ffi;
use crate::sync::bh::BhGuard;
use crate::sync::memory::GFP_CHARGED;
use crate::sync::revocable::Revocable;
use crate::sync::work;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

/// A pointer to a C object, valid until it is revoked.
struct Raw<C>(*mut C);

// SAFETY: only the functions below dereference the pointer, and they are sound on any thread.
unsafe impl<C> Send for Raw<C> {}
// SAFETY: as above; the fields of the C object that are read do not change, or are made for
// concurrent reads.
unsafe impl<C> Sync for Raw<C> {}

/// No event is due.
const IDLE: u32 = 0;
/// A context calls the handler, or has queued work that will.
const CALLING: u32 = 1;
/// As before, and a further event is due after that call.
const AGAIN: u32 = 2;

/// The state that clones of [`CqEvents`] share.
#[pin_data]
struct CqUpcalls {
    cq: Revocable<Raw<ffi::ib_cq>>,
    /// Whether a process owns the queue.
    user: bool,
    /// The completion vector: the CPU on which a consumer in the kernel is called.
    vector: u32,
    /// [`IDLE`], [`CALLING`] or [`AGAIN`]: a consumer in the kernel relies on it that no two calls
    /// of one handler overlap (the kernel's Documentation/infiniband/core_locking.rst).
    calls: Atomic<u32>,
    #[pin]
    work: Work<CqUpcalls>,
}

impl_has_work! {
    impl HasWork<Self> for CqUpcalls { self.work }
}

impl WorkItem for CqUpcalls {
    type Pointer = Arc<CqUpcalls>;

    fn run(this: Arc<CqUpcalls>) {
        this.complete();
        CqUpcalls::end(&this);
    }
}

impl CqUpcalls {
    /// Returns whether the caller is to call the handler now, or have it called. Otherwise the
    /// context that is calling it calls it again.
    fn begin(&self) -> bool {
        let mut seen = self.calls.load(Relaxed);
        // Nothing is lost if there is a further event already: its call comes later, and polls the
        // completions that this one is about.
        while seen != AGAIN {
            match self.calls.cmpxchg(seen, seen + 1, Full) {
                Ok(_) => return seen == IDLE,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// The handler has returned. Has it called again, by work, if there was another event.
    fn end(this: &Arc<Self>) {
        if this.calls.cmpxchg(CALLING, IDLE, Full).is_err() {
            this.calls.xchg(CALLING, Full);
            Self::queue(this);
        }
    }

    /// Has the handler called on the CPU of the completion vector. The state is [`CALLING`].
    fn queue(this: &Arc<Self>) {
        work::queue_bh_on(this.vector, this);
    }

    /// Calls the completion handler, unless the object is revoked.
    fn complete(&self) {
        let Some(inside) = self.cq.try_access() else {
            return;
        };
        let cq = inside.0;
        // SAFETY: it is not revoked, so `cq` is valid. Consumers set the handler before completions
        // can arise.
        let (handler, context) = unsafe { ((*cq).comp_handler, (*cq).cq_context) };
        if let Some(handler) = handler {
            // SAFETY: `comp_handler` takes the queue and its `cq_context`, and may be called in any
            // context.
            unsafe { handler(cq, context) };
        }
    }
}

/// The upcalls of a completion queue. Clones are the same handle.
#[derive(Clone)]
pub(crate) struct CqEvents(Arc<CqUpcalls>);

impl CqEvents {
    /// # Safety
    ///
    /// `cq` is being created, and stays valid until `close` was called.
    pub(super) unsafe fn new(cq: *mut ffi::ib_cq, vector: u32, user: bool) -> Result<Self> {
        let upcalls = pin_init!(CqUpcalls {
            cq: Revocable::new(Raw(cq)),
            user,
            vector,
            calls: Atomic::new(IDLE),
            work <- new_work!("oxe_cq_event"),
        });
        Ok(CqEvents(Arc::pin_init(upcalls, GFP_CHARGED)?))
    }

    /// Ends all upcalls; waits for those in progress. Process context.
    pub(super) fn close(&self) {
        self.0.cq.revoke();
    }

    /// Calls the completion handler: the completions that the consumer waits for are there. That of
    /// a consumer in the kernel is called on the CPU of its completion vector, or on any while that
    /// CPU is offline; later, if that is another one than this, or if a call is in progress.
    ///
    /// Softirq or process context with interrupts on, with no lock of the driver held, as the
    /// handler may poll at once.
    pub(crate) fn notify(&self) {
        if self.0.user {
            // It wakes a process, which the scheduler places.
            return self.0.complete();
        }
        if !self.0.begin() {
            return;
        }
        let _here = BhGuard::new();
        if work::is_elsewhere(self.0.vector) {
            return CqUpcalls::queue(&self.0);
        }
        self.0.complete();
        CqUpcalls::end(&self.0);
    }

    /// Reports to the consumer that the queue is unusable, as it has overflowed (IB_EVENT_CQ_ERR).
    /// Any context, no locks held.
    pub(crate) fn error(&self) {
        let Some(inside) = self.0.cq.try_access() else {
            return;
        };
        let cq = inside.0;
        // SAFETY: it is not revoked, so `cq` is valid. The handler is set before create and does
        // not change.
        let (handler, context, device) =
            unsafe { ((*cq).event_handler, (*cq).cq_context, (*cq).device) };
        if let Some(handler) = handler {
            let mut event = ffi::ib_event {
                device,
                event: ffi::ib_event_type_IB_EVENT_CQ_ERR,
                ..Default::default()
            };
            // SAFETY: `cq` is the member of the union that goes with this event.
            unsafe { *event.element.cq.as_mut() = cq };
            // SAFETY: `event_handler` takes an event on its object, and the object's context.
            unsafe { handler(&mut event, context) };
        }
    }
}

/// The upcalls of a shared receive queue. Clones are the same handle.
#[derive(Clone)]
pub(crate) struct SrqEvents(Arc<Revocable<Raw<ffi::ib_srq>>>);

impl SrqEvents {
    /// # Safety
    ///
    /// `srq` is being created, and stays valid until `close` was called.
    pub(super) unsafe fn new(srq: *mut ffi::ib_srq) -> Result<Self> {
        Ok(SrqEvents(Arc::new(Revocable::new(Raw(srq)), GFP_CHARGED)?))
    }

    /// Ends all upcalls; waits for those in progress. Process context.
    pub(super) fn close(&self) {
        self.0.revoke();
    }

    /// Reports to the consumer that fewer receives are left than the limit
    /// (IB_EVENT_SRQ_LIMIT_REACHED). Any context, no locks held.
    pub(crate) fn limit_reached(&self) {
        let Some(inside) = self.0.try_access() else {
            return;
        };
        let srq = inside.0;
        // SAFETY: it is not revoked, so `srq` is valid. The handler is set before create and does
        // not change.
        let (handler, context, device) =
            unsafe { ((*srq).event_handler, (*srq).srq_context, (*srq).device) };
        if let Some(handler) = handler {
            let mut event = ffi::ib_event {
                device,
                event: ffi::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
                ..Default::default()
            };
            // SAFETY: `srq` is the member of the union that goes with this event.
            unsafe { *event.element.srq.as_mut() = srq };
            // SAFETY: `event_handler` takes an event on its object, and the object's context.
            unsafe { handler(&mut event, context) };
        }
    }
}

/// The asynchronous events of a queue pair (IBTA Vol 1, 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpEvent {
    /// An error from which the queue pair does not recover.
    Fatal = ffi::ib_event_type_IB_EVENT_QP_FATAL,
    /// The peer broke the transport's rules (Invalid Request Local Work Queue Error).
    ReqErr = ffi::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// The peer asked for memory it has no right to (Local Access Violation Work Queue Error).
    AccessErr = ffi::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet came while the state was still RTR.
    CommEst = ffi::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SqDrained = ffi::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// The queue pair takes no more WQEs from its shared receive queue.
    LastWqe = ffi::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
    /// The path has migrated.
    PathMig = ffi::ib_event_type_IB_EVENT_PATH_MIG,
    /// The path could not migrate.
    PathMigErr = ffi::ib_event_type_IB_EVENT_PATH_MIG_ERR,
}

/// The events, by their bit in [`Upcalls::pending`].
const EVENTS: [QpEvent; 8] = [
    QpEvent::CommEst,
    QpEvent::SqDrained,
    QpEvent::ReqErr,
    QpEvent::AccessErr,
    QpEvent::Fatal,
    QpEvent::LastWqe,
    QpEvent::PathMig,
    QpEvent::PathMigErr,
];

/// The state that clones of [`QpEvents`] share.
#[pin_data]
struct Upcalls {
    qp: Revocable<Raw<ffi::ib_qp>>,
    /// Whether a process owns the queue pair.
    user: bool,
    /// The events that `work` is to report: bit n is set for `EVENTS[n]`.
    pending: Atomic<u32>,
    #[pin]
    work: Work<Upcalls>,
}

impl_has_work! {
    impl HasWork<Self> for Upcalls { self.work }
}

impl WorkItem for Upcalls {
    type Pointer = Arc<Upcalls>;

    fn run(this: Arc<Upcalls>) {
        let pending = this.pending.xchg(0, Full);
        for (bit, event) in EVENTS.into_iter().enumerate() {
            if pending & (1 << bit) != 0 {
                this.call(event);
            }
        }
    }
}

impl Upcalls {
    /// Calls the handler, unless the object is revoked.
    fn call(&self, event: QpEvent) {
        let Some(inside) = self.qp.try_access() else {
            return;
        };
        let qp = inside.0;
        // SAFETY: it is not revoked, so `qp` is valid. The handler is set before create and does
        // not change.
        let (handler, context, device) =
            unsafe { ((*qp).event_handler, (*qp).qp_context, (*qp).device) };
        if let Some(handler) = handler {
            let mut event = ffi::ib_event {
                device,
                event: event as u32,
                ..Default::default()
            };
            // SAFETY: `qp` is the member of the union that goes with these events.
            unsafe { *event.element.qp.as_mut() = qp };
            // SAFETY: `event_handler` takes an event on its object, and the object's context.
            unsafe { handler(&mut event, context) };
        }
    }

    /// Has a worker report `event`.
    fn defer(this: &Arc<Self>, event: QpEvent) {
        let Some(bit) = EVENTS.into_iter().position(|e| e == event) else {
            return;
        };
        let mut seen = this.pending.load(Relaxed);
        while let Err(now) = this.pending.cmpxchg(seen, seen | (1 << bit), Full) {
            seen = now;
        }
        // Work that is queued already and has not begun will see the bit.
        let _ = work::queue_process(this);
    }
}

/// The upcalls of a queue pair. Clones are the same handle.
#[derive(Clone)]
pub(crate) struct QpEvents {
    upcalls: Arc<Upcalls>,
    token: QpToken,
}

impl QpEvents {
    /// # Safety
    ///
    /// `qp` is being created, and stays valid until `close` was called.
    pub(super) unsafe fn new(qp: *mut ffi::ib_qp, user: bool) -> Result<Self> {
        let upcalls = Arc::pin_init(
            pin_init!(Upcalls {
                qp: Revocable::new(Raw(qp)),
                user,
                pending: Atomic::new(0),
                work <- new_work!("oxe_qp_event"),
            }),
            GFP_CHARGED,
        )?;
        Ok(QpEvents {
            upcalls,
            token: QpToken::new(qp),
        })
    }

    /// Ends all upcalls; waits for those in progress. Events that were not reported yet never are.
    /// Process context.
    pub(super) fn close(&self) {
        self.upcalls.qp.revoke();
    }

    /// The queue pair's identity in completions of kernel users.
    pub(crate) fn token(&self) -> QpToken {
        self.token
    }

    /// Reports `event` to the consumer. Any context, no locks held.
    ///
    /// A process is notified at once. Kernel users may sleep in their handlers (see `struct
    /// ib_qp_init_attr`), so a worker notifies them: once for each event, however often it was
    /// raised meanwhile.
    pub(crate) fn raise(&self, event: QpEvent) {
        if self.upcalls.user {
            self.upcalls.call(event);
        } else {
            Upcalls::defer(&self.upcalls, event);
        }
    }
}
