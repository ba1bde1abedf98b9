// SPDX-License-Identifier: GPL-2.0

//! Removal of a device: its processes get the completions of all requests that they have posted.
//!
//! A process may do nothing but poll: its rings stay mapped when the device is gone, and it makes
//! no system call that could fail. So before ib_core takes the device away, the QPs of processes go
//! to the error state and are flushed. Receives of an SRQ are flushed as well, by one of its QPs:
//! no message will ever take them. From then on receives cannot be posted, as their rings read as
//! full, and requests are flushed until the doorbell finds no device. The destroy of a QP flushes
//! what was posted meanwhile.
//!
//! The QPs of kernel users are left alone: their owners let go of the device before it goes.

use super::cause::Cause;
use super::engine;
use super::object::{Inner, Qp, Qps};
use super::outcome;
use super::progress::{Deferred, Input};
use crate::proto::transport::Instant;
use crate::sync::{barrier, bh, timer};
use kernel::sync::Arc;

/// The device is there again. Process context.
pub(crate) fn cancel(qps: &Qps) {
    qps.removal.set(false);
}

/// Flushes all QPs of processes, and has them refuse requests from now on. Process context, sleeps.
pub(crate) fn begin(qps: &Qps) {
    qps.removal.set(true);
    // Pairs with `Removal::has_begun_for_new`: a new QP is found below, or its creator finds the
    // flag set. A QP is modified under its lock: before it is flushed below, or else with the flag
    // set.
    barrier::full();
    qps.for_each(flush);
}

/// A QP is about to be destroyed: flushes what was posted since [`begin`], if the device is being
/// removed. Process context, sleeps.
pub(crate) fn destroying(qp: &Arc<Qp>) {
    if qp.qps.removal.has_begun() {
        flush(qp);
    }
}

/// Moves a QP of a process to the error state, and flushes all that is posted.
fn flush(qp: &Arc<Qp>) {
    if !qp.is_user {
        return;
    }
    // The peer gets the acknowledgements of what was carried out.
    engine::run(qp, Input::Flush);
    let mut inner = qp.stop();
    if inner.closed {
        return;
    }
    inner.transport.fail();
    inner.cause.note(Cause::Removal);
    // As many receives as a ring holds, and no more if others are posted meanwhile.
    inner
        .flush_poll
        .begin(Instant(timer::now_ns()), &Input::Doorbell);
    while !inner.closed {
        let (deferred, more) = flush_some(qp, &mut inner);
        if !more {
            inner.rq.refuse();
            inner.run.restart();
        }
        drop(inner);
        outcome::notify(qp, deferred);
        if !more {
            // Packets that became due while the QP was stopped. Not as a doorbell: a request whose
            // doorbell has not rung may be one that the process is told was not posted.
            engine::run(qp, Input::Sweep);
            return;
        }
        let _ = bh::cond_resched_killable();
        inner = qp.stop();
    }
}

/// Flushes some requests and receives. Returns what is to be notified, and whether there is more.
fn flush_some(qp: &Arc<Qp>, inner: &mut Inner) -> (Deferred, bool) {
    let mut deferred = Deferred::default();
    inner.fetch(&qp.ctx);
    let completed = outcome::complete(qp, inner, &mut deferred);
    let more = completed.more || completed.released && inner.sq.has_unfetched();
    (deferred, more)
}
