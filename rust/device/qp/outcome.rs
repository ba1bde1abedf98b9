// SPDX-License-Identifier: GPL-2.0

//! The outcome of an input of the engine: completions and events of the queue pair. They are
//! collected under the QP's lock, and their consumers are notified without it.

use super::object::{Inner, Qp};
use super::progress::Deferred;
use crate::proto::transport::Events;
use crate::rdma::events::QpEvent;
use kernel::sync::Arc;

/// What [`complete`] did.
#[derive(Clone, Copy)]
pub(super) struct Completed {
    /// Slots of the send queue became free.
    pub(super) released: bool,
    /// Receives are left to be flushed.
    pub(super) more: bool,
}

/// Pushes completions to their CQs and collects events. The context that is sending looks again if
/// there is more.
// Most calls find nothing, and those that do are on the way of every message.
#[inline(always)]
pub(super) fn complete(qp: &Arc<Qp>, inner: &mut Inner, deferred: &mut Deferred) -> Completed {
    if inner.transport.is_quiet() && inner.is_published(qp) {
        return Completed {
            released: false,
            more: false,
        };
    }
    complete_all(qp, inner, deferred)
}

fn complete_all(qp: &Arc<Qp>, inner: &mut Inner, deferred: &mut Deferred) -> Completed {
    let mut released = false;
    while let Some(done) = inner.transport.poll_send_completion(&mut inner.sq) {
        released = true;
        inner.cause.note_completion(done.status);
        deferred.send.merge(inner.sq.complete(&qp.ctx, &done));
    }
    let events = inner.transport.take_events();
    inner.cause.note_events(events);
    deferred.events = deferred.events.union(events);
    // Before the flush: see there.
    inner.publish_state(qp);
    let more = inner.is_in_error() && inner.flush_receives(qp, deferred);
    if more {
        inner.run.rerun();
    }
    Completed { released, more }
}

/// Notifies CQ consumers and reports events. No lock held.
#[inline]
pub(super) fn notify(qp: &Arc<Qp>, deferred: Deferred) {
    qp.ctx.send_cq.wake(deferred.send);
    qp.ctx.recv_cq.wake(deferred.recv);
    if deferred.srq_limit {
        if let Some(srq) = &qp.ctx.srq {
            srq.report_limit();
        }
    }
    if !deferred.events.is_empty() {
        report(qp, deferred.events);
    }
}

#[cold]
fn report(qp: &Arc<Qp>, events: Events) {
    let table = [
        (Events::COMM_EST, QpEvent::CommEst),
        (Events::SQ_DRAINED, QpEvent::SqDrained),
        (Events::REQ_ERR, QpEvent::ReqErr),
        (Events::ACCESS_ERR, QpEvent::AccessErr),
        (Events::FATAL, QpEvent::Fatal),
        (Events::LAST_WQE, QpEvent::LastWqe),
    ];
    for (flag, event) in table {
        if events.contains(flag) {
            qp.events.raise(event);
        }
    }
}
