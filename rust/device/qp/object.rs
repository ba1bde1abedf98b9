// SPDX-License-Identifier: GPL-2.0

//! The queue pair object: its parts and its end; and the queue pairs of a device.

mod create;

use super::cause::Cause;
use super::context::QpContext;
use super::counter::QpCounter;
use super::flush::{FlushPoll, Sweep, SWEEP_PERIOD};
use super::producer::WqProducer;
use super::progress::Deferred;
use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::service::Transport;
use super::trace;
use crate::device::cq::completion::Completion;
use crate::device::limits::{self, Kind};
use crate::device::mem::mkeys::Mkeys;
use crate::device::packet::ah::Ahs;
use crate::device::packet::loopback::LoopbackQueue;
use crate::device::port::Port;
use crate::net::tx_limit::TxLimit;
use crate::proto::transport::{EventCounts, Events, Instant, NotificationPoint, RunState, State};
use crate::rdma::access::Access;
use crate::rdma::events::QpEvents;
use crate::rdma::gid::AhAttr;
use crate::rdma::mmap::Cookie;
use crate::rdma::qp::{QpCaps, QpType};
use crate::sync::barrier;
use crate::sync::budget::SoftirqBudget;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh, SpinLockBhBackend};
use crate::sync::table::{self, Table};
use crate::sync::timer::{self, impl_has_timer, Timer};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::lock::Guard;
use kernel::sync::{Arc, CondVar};
use kernel::workqueue::{self, Work};

/// How many receives are flushed at a time.
const FLUSH_BUDGET: usize = 256;

/// Attributes that are kept for a query alone.
#[derive(Clone, Copy, Default)]
pub(crate) struct QpAttrCache {
    pub(crate) pkey_index: u16,
    pub(crate) access: Access,
    pub(crate) sq_psn: u32,
    pub(crate) rq_psn: u32,
    pub(crate) max_dest_rd_atomic: u8,
    /// The path MTU in bytes, as it was set. Loopback packets are longer.
    pub(crate) path_mtu: u32,
}

/// The state that the QP's lock guards.
pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) sq: SendQueue,
    pub(crate) rq: RecvQueue,
    /// Tells the senders of packets that were marked CE.
    pub(crate) notification_point: NotificationPoint,
    /// The address vector of a connection.
    pub(crate) av: Option<AhAttr>,
    pub(crate) attr_cache: QpAttrCache,
    /// The memory of an empty queue. The context that is sending for this QP has taken it, if there
    /// is one.
    pub(crate) loopback: LoopbackQueue,
    /// Why the QP is in the error state, if it is.
    pub(crate) cause: Cause,
    /// Which context sends for this QP.
    pub(crate) run: RunState,
    pub(crate) flush_poll: FlushPoll,
    /// Where this QP counts for `rdma statistic qp`, if anywhere.
    pub(crate) counter: Option<Arc<QpCounter>>,
    /// When packets were sent last, on the wire or by loopback, since the last reset.
    pub(crate) last_sent: Option<Instant>,
    /// How often in a row a page of a payload was missing.
    pub(crate) page_stalls: u16,
    /// The QP was destroyed.
    pub(crate) closed: bool,
}

/// A queue pair. Packets, timers and work hold references to it. [`Qp::close`] releases everything
/// that must not live as long as they do.
#[pin_data]
pub(crate) struct Qp {
    pub(crate) ctx: QpContext,
    /// The queue pairs of its device.
    pub(super) qps: Arc<Qps>,
    pub(crate) kind: QpType,
    pub(crate) events: QpEvents,
    pub(crate) caps: QpCaps,
    /// A process posts to it.
    pub(crate) is_user: bool,
    /// The softirq time that its user may take. `None` for kernel users.
    pub(super) budget: Option<SoftirqBudget>,
    /// The state, to be read without the lock: a [`State`] as a number.
    state: Atomic<u32>,
    #[pin]
    pub(crate) inner: SpinLockBh<Inner>,
    /// The context that sends for this QP has delivered the loopback packets of its batch, and has
    /// not taken the lock again yet. Set under the receiver's lock, cleared under this QP's.
    pub(super) delivered: Atomic<u32>,
    /// Wakes the contexts that wait in [`Qp::stop`].
    #[pin]
    pub(crate) idle: CondVar,
    #[pin]
    pub(crate) send_producer: WqProducer,
    /// `None` if receives come from a shared receive queue.
    pub(crate) recv_producer: Option<Pin<KBox<WqProducer>>>,
    /// The limit of its bytes on their way through the network stack.
    pub(crate) tx_limit: TxLimit<Qp>,
    #[pin]
    pub(crate) timer: Timer<Qp>,
    #[pin]
    work: Work<Qp>,
    /// The same in process context. Lockdep knows a work item by one context.
    #[pin]
    bulk_work: Work<Qp, 1>,
}

impl_has_timer! { impl HasTimer<0> for Qp { self.timer } }
workqueue::impl_has_work! { impl HasWork<Qp> for Qp { self.work } }
workqueue::impl_has_work! { impl HasWork<Qp, 1> for Qp { self.bulk_work } }

/// The Rust part of an ib_qp.
pub(crate) struct QpObject {
    pub(crate) qp: Arc<Qp>,
    _cookies: Option<RingCookies>,
}

/// Keeps the send ring mappable, and the receive ring if there is one.
type RingCookies = (Cookie, Option<Cookie>);

/// The queue pairs of a device, by number, and what concerns all of them. To be dropped in process
/// context.
#[pin_data]
pub(crate) struct Qps {
    #[pin]
    table: Table<Qp>,
    port: Arc<Port>,
    mkeys: Arc<Mkeys>,
    ahs: Arc<Ahs>,
    /// See [`super::removal`].
    pub(super) removal: Removal,
    #[pin]
    pub(super) sweep: SpinLockBh<Sweep>,
    #[pin]
    sweep_timer: Timer<Qps>,
    #[pin]
    sweep_work: Work<Qps>,
}

impl_has_timer! { impl HasTimer<0> for Qps { self.sweep_timer } }
workqueue::impl_has_work! { impl HasWork<Qps> for Qps { self.sweep_work } }

/// Whether the device is being removed.
pub(crate) struct Removal(Atomic<u32>);

impl Removal {
    /// The device is there.
    pub(crate) fn new() -> Self {
        Removal(Atomic::new(0))
    }

    /// Sets whether it is. Any context.
    pub(super) fn set(&self, begun: bool) {
        self.0.store(begun.into(), Relaxed);
    }

    /// Whether the device is being removed. To be asked under the lock of a QP that is in the
    /// device's table. Any context.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// The same, for a QP that has just come into the table. Any context.
    pub(crate) fn has_begun_for_new(&self) -> bool {
        barrier::full();
        self.has_begun()
    }
}

impl Qps {
    /// No queue pairs. Those that are made use these parts of the device. Process context. ENOMEM.
    pub(crate) fn new(port: Arc<Port>, mkeys: Arc<Mkeys>, ahs: Arc<Ahs>) -> Result<Arc<Self>> {
        let quota = limits::quota(Kind::Qp, limits::MAX_QP);
        Arc::pin_init(
            pin_init!(Qps {
                table <- Table::new(limits::MIN_QPN..=limits::MAX_QPN, quota),
                port,
                mkeys,
                ahs,
                removal: Removal::new(),
                sweep <- new_spinlock_bh!(Sweep::NEW, "oxe_sweep"),
                sweep_timer <- Timer::new(),
                sweep_work <- kernel::new_work!("oxe_sweep"),
            }),
            GFP_KERNEL,
        )
    }

    /// The queue pair with this number, if there is one. Any context.
    #[inline]
    pub(crate) fn get(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.table.get(qpn)
    }

    /// See [`Table::next`].
    pub(super) fn next(&self, qpn: u32) -> Option<(u32, Arc<Qp>)> {
        self.table.next(qpn)
    }

    /// See [`Table::for_each`].
    pub(super) fn for_each(&self, f: impl FnMut(&Arc<Qp>)) {
        self.table.for_each(f);
    }

    /// Drops the cached routes of all QPs and AHs. Process context, sleeps; may be called under
    /// RTNL.
    pub(crate) fn forget_routes(&self) {
        self.table.for_each(|qp| qp.forget_route());
        self.ahs.forget_routes();
        // A QP or AH that has just left its table may keep a route until it is dropped.
        table::rcu_barrier();
    }

    /// Starts the sweep of the device, if it is not running, for a QP that no longer polls its own
    /// ring. Softirq or process context.
    pub(super) fn start_sweep(this: &Arc<Self>) {
        let sweep = this.sweep.lock();
        if !sweep.ended {
            let due = timer::now_ns().saturating_add(SWEEP_PERIOD);
            this.sweep_timer.arm_at(this.as_arc_borrow(), due);
        }
    }

    /// Ends the sweep for good. Process context.
    pub(crate) fn end_sweep(&self) {
        self.sweep.lock().ended = true;
        self.sweep_timer.cancel();
    }
}

impl Qp {
    /// Closes the QP: a lookup does not find it any more, and a context that holds a reference does
    /// nothing with it. Completions that were not polled yet stay in their CQs (IBTA 10.2.4.4).
    ///
    /// Process context, sleeps.
    pub(crate) fn close(&self) {
        {
            let mut inner = self.stop();
            inner.closed = true;
            inner.sq.reset();
            inner.rq.reset();
            if let Some(link) = inner.transport.link() {
                link.clear();
                link.path = None;
            }
        }
        // This comes after the path was dropped, as `Qps::forget_routes` looks for routes in the
        // table.
        self.qps.table.remove(self.ctx.qpn);
        self.tx_limit.cancel();
        self.timer.cancel();
    }

    /// Has the QP ignore all input, and waits until no context sends for it. From then on nothing
    /// refers to memory of its consumer: packets on the wire have their payload, and those of
    /// loopback are delivered. [`RunState::restart`] has the QP work again.
    ///
    /// Process context, sleeps.
    pub(crate) fn stop(&self) -> Guard<'_, Inner, SpinLockBhBackend> {
        let mut inner = self.inner.lock();
        loop {
            if inner.run.stop() {
                return inner;
            }
            self.idle.wait(&mut inner);
        }
    }

    /// Has the QP count at this counter from now on, besides its port. Nothing is added to the one
    /// before when this has returned.
    pub(crate) fn set_counter(&self, counter: Option<Arc<QpCounter>>) {
        let mut inner = self.inner.lock();
        inner.count_events(&self.ctx);
        let old = core::mem::replace(&mut inner.counter, counter);
        drop(inner);
        drop(old);
    }

    /// Drops the cached route to the peer.
    pub(crate) fn forget_route(&self) {
        if let Some(link) = self.inner.lock().transport.link() {
            if let Some(path) = &mut link.path {
                path.forget_route();
            }
        }
    }

    /// Drops requests that were posted before the QP may send: the doorbell fails, so they must not
    /// stay in the ring.
    pub(crate) fn discard_sends(&self) {
        let mut inner = self.inner.lock();
        if matches!(inner.state(), State::Reset | State::Init | State::Rtr) {
            inner.sq.reset();
        }
    }

    /// The state as last published, without the lock. Any context.
    #[inline]
    pub(crate) fn state(&self) -> State {
        let number = self.state.load(Relaxed);
        State::ALL
            .into_iter()
            .find(|state| *state as u32 == number)
            .unwrap_or(State::Err)
    }
}

impl Inner {
    /// The state of a new QP. ENOMEM.
    fn new(kind: QpType, qpn: u32, sq: SendQueue, rq: RecvQueue, port: &Port) -> Result<Self> {
        Ok(Inner {
            transport: Transport::new(kind, qpn, port)?,
            sq,
            rq,
            notification_point: NotificationPoint::default(),
            av: None,
            attr_cache: QpAttrCache::default(),
            loopback: LoopbackQueue::new(),
            cause: Cause::None,
            run: RunState::Idle,
            flush_poll: FlushPoll::NEW,
            counter: None,
            last_sent: None,
            page_stalls: 0,
            closed: false,
        })
    }

    /// The state.
    #[inline]
    pub(crate) fn state(&self) -> State {
        self.transport.state()
    }

    /// Whether the process that rang the doorbell sends all requests that it posted itself. This
    /// applies to the unreliable services, whose requests never wait for a response. Its
    /// system call ends when the device goes away.
    #[inline]
    pub(crate) fn is_callers_work(&self, qp: &Qp) -> bool {
        qp.is_user && !self.transport.is_acknowledged() && !qp.qps.removal.has_begun()
    }

    /// Whether everything is to be flushed.
    #[inline]
    pub(crate) fn is_in_error(&self) -> bool {
        self.state() == State::Err
    }

    /// Takes posted WQEs into slots. They wait in the ring until the QP may send (IBTA 10.8.2).
    // The removal of a device has a copy of its own, so that the engine need not call one.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, qp: &QpContext) {
        if matches!(
            self.state(),
            State::Rts | State::Sqd | State::Sqe | State::Err
        ) {
            while self.sq.fetch(qp) {}
        }
    }

    /// Fetches what was posted. Returns whether nothing is due now: all of it waits for further
    /// requests.
    // A function of its own: it has a copy of `fetch`, which the others are not to pay for.
    #[inline(never)]
    pub(crate) fn posted_is_corked(&mut self, qp: &QpContext, now: Instant) -> bool {
        if self.run != RunState::Idle {
            return false;
        }
        self.fetch(qp);
        self.transport.is_corked(now, &self.sq)
    }

    /// Whether there may be requests to fetch, or packets to send.
    #[inline]
    pub(crate) fn may_transmit(&self) -> bool {
        self.transport.may_transmit(&self.sq) || self.sq.has_unfetched()
    }

    /// Counts what happened to the requester, if anything did.
    #[inline]
    pub(super) fn count_events(&mut self, qp: &QpContext) {
        if let Some(counts) = self.transport.take_counts() {
            self.add_events(qp, &counts);
        }
    }

    #[cold]
    fn add_events(&self, qp: &QpContext, counts: &EventCounts) {
        qp.port.counters.events(counts);
        if let Some(counter) = &self.counter {
            counter.events(counts);
        }
    }

    /// Publishes the state for readers without the lock.
    #[inline(always)]
    pub(crate) fn publish_state(&self, qp: &Qp) {
        if !self.is_published(qp) {
            self.publish_change(qp, self.state());
        }
    }

    /// Whether the state is the one that was published last.
    #[inline(always)]
    pub(crate) fn is_published(&self, qp: &Qp) -> bool {
        qp.state.load(Relaxed) == self.state() as u32
    }

    #[cold]
    fn publish_change(&self, qp: &Qp, state: State) {
        let cause = self.cause.text().unwrap_or_default();
        trace::qp_state(&qp.ctx, qp.state(), state, cause);
        qp.state.store(state as u32, Relaxed);
        // Pairs with `Driver::posted_recv`: a receive that is posted now is either found in
        // the ring by the flush that follows, or its consumer finds the error state.
        barrier::full();
    }

    /// Flushes posted receives, the one in use first. Returns whether some are left for the next
    /// time.
    pub(crate) fn flush_receives(&mut self, qp: &Qp, deferred: &mut Deferred) -> bool {
        self.transport.abandon_recv();
        // When the device goes no QP will take those of a shared receive queue.
        let all = qp.is_user && qp.qps.removal.has_begun();
        for _ in 0..FLUSH_BUDGET {
            let limited = qp.is_user && (all || !self.rq.is_shared());
            if limited && !self.flush_poll.take() {
                return false;
            }
            let Some(wr_id) = self.rq.flush_one(all) else {
                if self.rq.report_last() {
                    deferred.events = deferred.events.union(Events::LAST_WQE);
                }
                return false;
            };
            deferred.recv.merge(
                qp.ctx
                    .complete_recv(&Completion::recv_flushed(qp.ctx.id(), wr_id)),
            );
        }
        true
    }
}
