// SPDX-License-Identifier: GPL-2.0

//! The creation of queue pairs.

use super::{Inner, Qp, QpObject, Qps, RingCookies};
use crate::device::cq::CqObject;
use crate::device::limits;
use crate::device::pd::PdObject;
use crate::device::qp::context::QpContext;
use crate::device::qp::producer::WqProducer;
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::device::qp::send_wqe::SqLimits;
use crate::device::qp::srq::SrqObject;
use crate::device::ring::Ring;
use crate::device::uabi::resp::{MmInfo, RxeCreateQpResp};
use crate::device::uabi::wqe::RxeSge;
use crate::net::netdev::Namespace;
use crate::net::tx_limit::TxLimit;
use crate::proto::transport::State;
use crate::rdma::events::QpEvents;
use crate::rdma::qp::{QpCaps, QpInit, QpToken, QpType};
use crate::rdma::udata::UserCtx;
use crate::sync::budget::SoftirqBudget;
use crate::sync::lock::new_spinlock_bh;
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use crate::sync::table::Table;
use crate::sync::timer::Timer;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;

/// The QP number of the GSI (IBTA 13.5.1, general services interface).
const GSI_QPN: u32 = 1;

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
fn reserve(table: &Table<Qp>, kind: QpType, owner: &Owner) -> Result<u32> {
    match kind {
        QpType::Gsi => table.reserve_at(GSI_QPN).map(|()| GSI_QPN),
        QpType::Rc | QpType::Uc | QpType::Ud => table.reserve(owner),
    }
}

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

/// The immutable part of QP `qpn`. The calling process posts to it if `is_user`.
fn context(
    qpn: u32,
    qps: &Qps,
    domain: &PdObject,
    init: &QpInit<'_, CqObject, SrqObject>,
    token: QpToken,
    is_user: bool,
) -> QpContext {
    QpContext {
        port: qps.port.clone(),
        mkeys: qps.mkeys.clone(),
        ahs: qps.ahs.clone(),
        qpn,
        pd: domain.id,
        owner: domain.owner.clone(),
        namespace: is_user.then(Namespace::of_caller),
        token,
        send_cq: init.send_cq.cq.clone(),
        recv_cq: init.recv_cq.cq.clone(),
        srq: init.srq.map(|object| object.srq.clone()),
    }
}

impl Qp {
    /// Makes a QP in the reset state.
    ///
    /// Process context. EINVAL for capabilities over the limits, EOPNOTSUPP for a service that the
    /// driver does not have, ENOMEM, EFAULT, EIO for a process while the device is being removed.
    pub(crate) fn create(
        qps: &Arc<Qps>,
        pd: &PdObject,
        init: &QpInit<'_, CqObject, SrqObject>,
        events: QpEvents,
        user: Option<UserCtx<'_>>,
    ) -> Result<QpObject> {
        let caps = check_caps(init)?;
        let qpn = reserve(&qps.table, init.kind, &pd.owner)?;
        let object = Self::create_at(qpn, qps, pd, init, caps, events, user)
            .inspect_err(|_| qps.table.cancel(qpn))?;
        qps.table.publish(qpn, object.qp.clone());
        if object.qp.is_user && qps.removal.has_begun_for_new() {
            object.qp.close();
            return Err(EIO);
        }
        Ok(object)
    }

    fn create_at(
        qpn: u32,
        qps: &Arc<Qps>,
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
        let sq = SendQueue::new(sq_limits, init.send_cq.cq.clone(), is_user)?;
        let rq = match init.srq {
            Some(object) => RecvQueue::shared(&object.srq)?,
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
        let inner = Inner::new(init.kind, qpn, sq, rq, &qps.port)?;
        let ctx = context(qpn, qps, domain, init, events.token(), is_user);
        let qp = Arc::pin_init(
            try_pin_init!(Qp {
                ctx,
                qps: qps.clone(),
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
}
