// SPDX-License-Identifier: GPL-2.0

//! The queue pair object: its parts, creation and destruction.

use super::context::QpContext;
use super::flush::FlushPoll;
use super::producer::WqProducer;
use super::progress::Deferred;
use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::send_wqe::SqLimits;
use super::service::Transport;
use super::srq::SrqObject;
use crate::device::cq::completion::Completion;
use crate::device::cq::CqObject;
use crate::device::packet::loopback::LoopbackQueue;
use crate::device::pd::PdObject;
use crate::device::ring::Ring;
use crate::device::uabi::resp::{MmInfo, RxeCreateQpResp};
use crate::device::uabi::wqe::RxeSge;
use crate::device::{limits, Core};
use crate::net::netdev::Namespace;
use crate::net::tx_limit::TxLimit;
use crate::proto::transport::{Events, RunState, State};
use crate::rdma::access::Access;
use crate::rdma::events::QpEvents;
use crate::rdma::gid::AhAttr;
use crate::rdma::mmap::Cookie;
use crate::rdma::qp::{QpCaps, QpInit, QpType};
use crate::rdma::udata::UserCtx;
use crate::sync::barrier;
use crate::sync::budget::SoftirqBudget;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh, SpinLockBhBackend};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use crate::sync::timer::{impl_has_timer, Timer};
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::lock::Guard;
use kernel::sync::{Arc, CondVar};
use kernel::workqueue::{self, Work};

/// The QP number of the GSI (IBTA 13.5.1, general services interface).
const GSI_QPN: u32 = 1;

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
    /// The address vector of a connection.
    pub(crate) av: Option<AhAttr>,
    pub(crate) attr_cache: QpAttrCache,
    /// The memory of an empty queue. The context that is sending for this QP has taken it, if there
    /// is one.
    pub(crate) loopback: LoopbackQueue,
    /// Which context sends for this QP.
    pub(crate) run: RunState,
    pub(crate) flush_poll: FlushPoll,
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

/// Checks the requested capabilities against the limits; returns those that the QP will have. Those
/// for receives mean nothing with a shared receive queue (IBTA 11.2.5.1).
fn check_caps(init: &QpInit<'_, CqObject, SrqObject>) -> Result<QpCaps> {
    let mut cap = init.cap;
    if init.srq.is_some() {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    let fits = cap.max_send_wr <= limits::MAX_QP_WR
        && cap.max_recv_wr <= limits::MAX_QP_WR
        && cap.max_send_sge <= limits::MAX_SGE
        && cap.max_recv_sge <= limits::MAX_SGE
        && cap.max_inline_data <= limits::MAX_INLINE;
    if !fits {
        return Err(EINVAL);
    }
    // An element has as much room for inline data as for SGEs; the consumer may use all of it.
    const SGE_LEN: u32 = size_of::<RxeSge>() as u32;
    let inline = cap
        .max_inline_data
        .max(cap.max_send_sge.saturating_mul(SGE_LEN))
        .next_multiple_of(SGE_LEN);
    Ok(QpCaps {
        max_inline_data: inline.min(limits::MAX_INLINE),
        ..cap
    })
}

/// A free QP number. The GSI QP, which is the kernel's, has number 1.
fn reserve(core: &Core, kind: QpType, owner: &Owner) -> Result<u32> {
    match kind {
        QpType::Gsi => core.qps.reserve_at(GSI_QPN).map(|()| GSI_QPN),
        QpType::Rc | QpType::Uc | QpType::Ud => core.qps.reserve(owner),
    }
}

/// Keeps the send ring mappable, and the receive ring if there is one.
type RingCookies = (Cookie, Option<Cookie>);

/// Makes the rings mappable for the process, and returns their mmap offsets to it.
fn respond(user: &UserCtx<'_>, sq: &SendQueue, rq: &RecvQueue) -> Result<RingCookies> {
    let publish = |ring: &Ring| -> Result<_> {
        let (cookie, offset) = user.publish(ring.buf())?;
        Ok((cookie, MmInfo::new(offset, ring.buf().len())))
    };
    let (rq_cookie, rq_mi) = rq.ring().map(publish).transpose()?.unzip();
    let (sq_cookie, sq_mi) = publish(sq.ring())?;
    user.respond(&RxeCreateQpResp {
        rq_mi: rq_mi.unwrap_or_default(),
        sq_mi,
    })?;
    Ok((sq_cookie, rq_cookie))
}

/// The producer's side of a receive ring.
fn producer_on_heap(ring: &Ring, max_sge: u32) -> Result<Pin<KBox<WqProducer>>> {
    KBox::pin_init(WqProducer::new(ring.clone(), max_sge, 0), GFP_CHARGED)
}

impl Qp {
    /// Makes a QP in the reset state.
    ///
    /// Process context. EINVAL for capabilities over the limits, EOPNOTSUPP for a service that the
    /// driver does not have, ENOMEM, EFAULT, EIO for a process while the device is being removed.
    pub(crate) fn create(
        core: &Arc<Core>,
        pd: &PdObject,
        init: &QpInit<'_, CqObject, SrqObject>,
        events: QpEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<QpObject> {
        let caps = check_caps(init)?;
        let qpn = reserve(core, init.kind, &pd.owner)?;
        let object = Self::create_at(qpn, core, pd, init, caps, events, user)
            .inspect_err(|_| core.qps.cancel(qpn))?;
        core.qps.publish(qpn, object.qp.clone());
        if object.qp.is_user && core.removal.has_begun_for_new() {
            object.qp.close();
            return Err(EIO);
        }
        Ok(object)
    }

    fn create_at(
        qpn: u32,
        core: &Arc<Core>,
        domain: &PdObject,
        init: &QpInit<'_, CqObject, SrqObject>,
        caps: QpCaps,
        events: QpEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<QpObject> {
        let is_user = user.is_some();
        let pd = domain.id;
        let sq_limits = SqLimits {
            pd,
            kind: init.kind,
            sig_all: init.sig_all,
            max_wr: caps.max_send_wr,
            max_sge: caps.max_send_sge,
            max_inline: caps.max_inline_data,
        };
        let sq = SendQueue::new(sq_limits, is_user)?;
        let srq = init.srq.map(|object| object.srq.clone());
        let rq = match &srq {
            Some(srq) => RecvQueue::shared(srq)?,
            None => RecvQueue::new(pd, caps.max_recv_wr, caps.max_recv_sge, is_user)?,
        };
        let caps = QpCaps {
            max_send_wr: sq.ring().capacity(),
            max_recv_wr: rq.ring().map_or(0, Ring::capacity),
            ..caps
        };
        let cookies = match &user {
            Some(user) => Some(respond(user, &sq, &rq)?),
            None => None,
        };
        let send_producer =
            WqProducer::new(sq.ring().clone(), caps.max_send_sge, caps.max_inline_data);
        let recv_producer = match rq.ring() {
            Some(ring) => Some(producer_on_heap(ring, caps.max_recv_sge)?),
            None => None,
        };
        let inner = Inner::new(init.kind, qpn, sq, rq)?;
        let ctx = QpContext {
            core: core.clone(),
            qpn,
            pd,
            owner: domain.owner.clone(),
            namespace: is_user.then(Namespace::of_caller),
            token: events.token(),
            send_cq: init.send_cq.cq.clone(),
            recv_cq: init.recv_cq.cq.clone(),
            srq,
        };
        let qp = Arc::pin_init(
            try_pin_init!(Qp {
                ctx,
                kind: init.kind,
                events,
                caps,
                is_user,
                budget: is_user.then(SoftirqBudget::of_current_user),
                state: Atomic::new(State::Reset as u32),
                inner <- new_spinlock_bh!(inner, "oxe_qp"),
                delivered: Atomic::new(0),
                idle <- kernel::new_condvar!("oxe_qp_idle"),
                send_producer <- send_producer,
                recv_producer,
                tx_limit: TxLimit::new()?,
                timer <- Timer::new(),
                work <- kernel::new_work!("oxe_qp"),
                bulk_work <- kernel::new_work!("oxe_qp_bulk"),
            }? Error),
            GFP_CHARGED,
        )?;
        Ok(QpObject {
            qp,
            _cookies: cookies,
        })
    }

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
                link.put_mrs();
                link.path = None;
            }
        }
        // This comes after the path was dropped, as `Core::detach` looks for routes in the table.
        self.ctx.core.qps.remove(self.ctx.qpn);
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
    fn new(kind: QpType, qpn: u32, sq: SendQueue, rq: RecvQueue) -> Result<Self> {
        Ok(Inner {
            transport: Transport::new(kind, qpn)?,
            sq,
            rq,
            av: None,
            attr_cache: QpAttrCache::default(),
            loopback: LoopbackQueue::new(),
            run: RunState::Idle,
            flush_poll: FlushPoll::NEW,
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
        qp.is_user && !self.transport.is_acknowledged() && !qp.ctx.core.removal.has_begun()
    }

    /// Whether everything is to be flushed.
    #[inline]
    pub(crate) fn is_in_error(&self) -> bool {
        self.state() == State::Err
    }

    /// Takes posted WQEs into slots. They wait in the ring until the QP may send (IBTA 10.8.2).
    // The removal of a device has a copy of its own, so that the engine need not call one.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, core: &Core) {
        if matches!(
            self.state(),
            State::Rts | State::Sqd | State::Sqe | State::Err
        ) {
            while self.sq.fetch(core) {}
        }
    }

    /// Whether there may be requests to fetch, or packets to send.
    #[inline]
    pub(crate) fn may_transmit(&self) -> bool {
        self.transport.may_transmit(&self.sq) || self.sq.has_unfetched()
    }

    /// Publishes the state for readers without the lock.
    #[inline]
    pub(crate) fn publish_state(&self, qp: &Qp) {
        let state = self.state() as u32;
        if qp.state.load(Relaxed) != state {
            qp.state.store(state, Relaxed);
            // Pairs with `Driver::posted_recv`: a receive that is posted now is either found in
            // the ring by the flush that follows, or its consumer finds the error state.
            barrier::full();
        }
    }

    /// Flushes posted receives, the one in use first. Returns whether some are left for the next
    /// time.
    pub(crate) fn flush_receives(&mut self, qp: &Qp, deferred: &mut Deferred) -> bool {
        self.transport.abandon_recv();
        // When the device goes no QP will take those of a shared receive queue.
        let all = qp.is_user && qp.ctx.core.removal.has_begun();
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
                    .recv_cq
                    .push(&Completion::recv_flushed(qp.ctx.id(), wr_id)),
            );
        }
        true
    }
}
