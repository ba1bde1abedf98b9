// SPDX-License-Identifier: GPL-2.0

//! Queues the work of a QP: to a softirq, or to process context if its user has spent the budget of
//! softirq time.

use super::object::Qp;
use crate::sync::bh::{self, BhGuard};
use crate::sync::{timer, work};
use kernel::sync::Arc;

/// Queues the work of `qp`. Any context.
pub(crate) fn queue_work(qp: &Arc<Qp>) {
    let spent = qp
        .budget
        .is_some_and(|budget| budget.is_spent(timer::now_ns()));
    if spent {
        work::queue_bulk(qp);
    } else {
        work::queue_bh(qp);
    }
}

/// Schedules `qp` to run in softirq context: before this returns if the caller's context allows
/// that, and the user has not spent the budget.
///
/// Any context, hard irqs included. A kernel user may post in any context, and may hold a lock that
/// its completion handler takes, too: the handler must not run from within the post.
pub(crate) fn schedule(qp: &Arc<Qp>) {
    if bh::irqs_disabled() {
        queue_work(qp);
    } else {
        let _bh = BhGuard::new();
        queue_work(qp);
    }
}
