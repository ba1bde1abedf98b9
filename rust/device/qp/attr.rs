// SPDX-License-Identifier: GPL-2.0

//! Modify and query of a QP (IBTA 11.2.5.2, 11.2.5.3).

use super::cause::Cause;
use super::engine;
use super::flush::FlushPoll;
use super::object::{Inner, Qp, QpAttrCache};
use super::progress::Input;
use super::service::attr::from_transport;
use super::service::resources::{read_keys, NewResources, Resources};
use crate::device::limits;
use crate::device::tuning::Control;
use crate::proto::wire::Psn;
use crate::rdma::attr::Mtu;
use crate::rdma::error::unsupported;
use crate::rdma::port::PKEY_TABLE_LEN;
use crate::rdma::qp::{QpAttr, QpQuery, QpState};
use crate::sync::may_log;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Changes attributes and, perhaps, the state; all of it or nothing.
///
/// Process context. EINVAL for a transition or an attribute that the specification does not allow,
/// or a value out of its range; EOPNOTSUPP for attributes that the driver does not support; ENOMEM;
/// EIO for the QP of a process while the device is being removed.
pub(crate) fn modify(qp: &Arc<Qp>, attr: &QpAttr<'_>) -> Result {
    check_values(qp, attr)?;
    // Memory is allocated before the lock is taken.
    let resources = match attr.max_dest_rd_atomic() {
        Some(count) => Some((Resources::new(count.into())?, read_keys(count.into())?)),
        None => None,
    };
    let connected = Connected {
        loopback: takes_loopback(qp, attr),
        control: qp.ctx.port.control(),
    };
    if attr.state() == Some(QpState::Reset) {
        engine::run(qp, Input::Flush);
    }
    let leftover = match attr.state() {
        Some(QpState::Reset) => {
            let mut inner = qp.stop();
            let leftover = apply(qp, &mut inner, attr, connected, resources);
            inner.run.restart();
            leftover
        }
        _ => apply(qp, &mut qp.inner.lock(), attr, connected, resources),
    };
    // If it failed, too: what was due while the QP was stopped is due now.
    engine::run(qp, Input::Doorbell);
    leftover.map(drop)
}

/// How the port has a QP that is connected now.
struct Connected {
    loopback: bool,
    control: Control,
}

/// The checks that need no state.
fn check_values(qp: &Qp, attr: &QpAttr<'_>) -> Result {
    if attr.has_migration() || attr.caps().is_some() {
        return Err(unsupported());
    }
    let max_rd_atomic = |count: u8| u32::from(count) > limits::MAX_RD_ATOMIC;
    let bad = attr
        .pkey_index()
        .is_some_and(|index| index >= PKEY_TABLE_LEN)
        || attr.max_rd_atomic().is_some_and(max_rd_atomic)
        || attr.max_dest_rd_atomic().is_some_and(max_rd_atomic);
    if bad {
        return Err(EINVAL);
    }
    if let (Some(av), true) = (attr.av(), qp.is_user) {
        qp.ctx.port.check_source(av)?;
    }
    attr.path_mtu().map_or(Ok(()), |mtu| check_mtu(qp, mtu))
}

/// A path MTU that the port has no room for is an error, which the log explains: the connection
/// manager takes it from the peer's request, and its users see a peer that does not answer.
fn check_mtu(qp: &Qp, asked: Mtu) -> Result {
    let port = &qp.ctx.port;
    let (asked, most) = (asked.bytes(), port.mtu());
    if asked <= most {
        return Ok(());
    }
    if may_log() {
        port.with_netdev(|netdev| {
            pr_info!(
                "QP {}: a path MTU of {asked} is refused, as {} (MTU {}) has room for {most}: \
                 both ends of a connection need the same MTU\n",
                qp.ctx.qpn,
                netdev.name(),
                netdev.mtu()
            );
        });
    }
    Err(EINVAL)
}

/// Whether `qp`, if it is connected now to a QP of its own device, takes the loopback: as its peer
/// does, if that is connected already, or else as the port is switched. No lock held.
fn takes_loopback(qp: &Qp, attr: &QpAttr<'_>) -> bool {
    attr.dest_qp_num()
        .and_then(|dest| qp.qps.get(dest))
        .and_then(|peer| peer.inner.lock().transport.loopback_to(qp.ctx.qpn))
        .unwrap_or_else(|| qp.ctx.port.loopback())
}

/// Changes the QP; returns the old resources, which are to be dropped without the lock.
fn apply(
    qp: &Qp,
    inner: &mut Inner,
    attr: &QpAttr<'_>,
    connected: Connected,
    resources: Option<NewResources>,
) -> Result<Option<NewResources>> {
    if qp.is_user && qp.qps.removal.has_begun() {
        return Err(EIO);
    }
    let from = from_transport(inner.state());
    if attr.cur_state().is_some_and(|state| state != from) {
        return Err(EINVAL);
    }
    let to = attr.state().unwrap_or(from);
    if !attr.is_ok(from, to, qp.kind) {
        return Err(EINVAL);
    }
    if let Some(link) = inner.transport.link().filter(|link| link.path.is_none()) {
        link.loopback = connected.loopback;
    }
    // Until its next reset the QP keeps it.
    if to == QpState::Rtr && from != QpState::Rtr {
        inner.transport.control(connected.control);
    }
    let old = inner.transport.modify(&qp.ctx, attr, resources)?;
    if let Some(av) = attr.av() {
        inner.av = Some(av.clone());
    }
    if to == QpState::Err {
        inner.cause.note(Cause::Consumer);
    }
    cache_attrs(&mut inner.attr_cache, attr);
    if attr.state() == Some(QpState::Reset) {
        reset(inner);
    }
    inner.publish_state(qp);
    Ok(old)
}

fn cache_attrs(cache: &mut QpAttrCache, attr: &QpAttr<'_>) {
    cache.pkey_index = attr.pkey_index().unwrap_or(cache.pkey_index);
    cache.access = attr.access().unwrap_or(cache.access);
    cache.sq_psn = attr.sq_psn().map_or(cache.sq_psn, |psn| psn & Psn::MASK);
    cache.rq_psn = attr.rq_psn().map_or(cache.rq_psn, |psn| psn & Psn::MASK);
    cache.path_mtu = attr.path_mtu().map_or(cache.path_mtu, Mtu::bytes);
    cache.max_dest_rd_atomic = attr
        .max_dest_rd_atomic()
        .unwrap_or(cache.max_dest_rd_atomic);
}

/// Resets the QP: posted requests are dropped without a completion (IBTA 10.3.1.1).
fn reset(inner: &mut Inner) {
    inner.transport.abandon_recv();
    if let Some(link) = inner.transport.link() {
        link.path = None;
    }
    inner.sq.reset();
    inner.rq.reset();
    inner.av = None;
    inner.cause = Cause::None;
    inner.last_sent = None;
    inner.attr_cache = QpAttrCache::default();
    inner.flush_poll = FlushPoll::NEW;
}

/// Returns all attributes. Process context.
pub(crate) fn query(qp: &Qp, out: &mut QpQuery<'_>) {
    let inner = qp.inner.lock();
    out.set_state(from_transport(inner.state()));
    out.set_caps(&qp.caps);
    out.set_sig_all(inner.sq.limits().sig_all);
    out.set_access(inner.attr_cache.access);
    out.set_pkey_index(inner.attr_cache.pkey_index);
    out.set_max_dest_rd_atomic(inner.attr_cache.max_dest_rd_atomic);
    if let Some(av) = &inner.av {
        out.set_av(av);
    }
    let path_mtu = Mtu::fitting(inner.attr_cache.path_mtu);
    inner.transport.query(path_mtu, out);
}
