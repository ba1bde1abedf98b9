// SPDX-License-Identifier: GPL-2.0

//! Flush poll: finds receives that a process posts in the error state. They must be flushed
//! (IBTA 10.3.1.7), but posting a receive has no doorbell, so the driver polls the ring.
//!
//! For a moment after it entered the error state a QP polls its own ring, as consumers drain their
//! queues then. After that one sweep polls for all QPs of the device. The sweep flushes a limited
//! number of receives a second, independently of the number of QPs and of what their processes do,
//! as no process is charged for its time.

use super::progress::Input;
use crate::device::{limits, Core};
use crate::proto::transport::Instant;
use crate::sync::timer::{self, impl_has_timer};
use kernel::sync::Arc;
use kernel::workqueue;

/// How long a QP polls its own ring, in nanoseconds, and the first wait. Each further wait is as
/// long as all before it together.
const SELF_POLL_NS: u64 = FIRST_WAIT << 8;
const FIRST_WAIT: u64 = 10_000_000;

/// How long the sweep waits between two steps, in nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// How many receives of one QP a step of the sweep flushes at most.
const SWEEP_BUDGET: u32 = 1024;

/// The time of the next poll of a QP in the error state, and how many receives it may flush until
/// then.
pub(crate) struct FlushPoll {
    /// When the polling began.
    since: Option<Instant>,
    due: Option<Instant>,
    budget: u32,
}

impl FlushPoll {
    /// The state of a QP that is not in the error state.
    pub(crate) const NEW: Self = FlushPoll {
        since: None,
        due: None,
        budget: limits::MAX_QP_WR,
    };

    /// The engine runs the QP: sets the number of receives that may be flushed. A doorbell or the
    /// end of a wait allows as many as a ring holds, the sweep allows some.
    pub(crate) fn begin(&mut self, now: Instant, input: &Input<'_>) {
        match input {
            Input::Doorbell => self.budget = limits::MAX_QP_WR,
            Input::Sweep => self.budget = SWEEP_BUDGET,
            _ if self.due.is_some_and(|due| due <= now) => {
                self.due = None;
                self.budget = limits::MAX_QP_WR;
            }
            _ => {}
        }
    }

    /// Whether one more receive may be flushed.
    pub(crate) fn take(&mut self) -> bool {
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// The time of the next poll; `None` once the sweep polls.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.0.saturating_sub(since.0);
        if self.due.is_none() && elapsed < SELF_POLL_NS {
            let wait = elapsed.max(FIRST_WAIT).min(SELF_POLL_NS - elapsed);
            self.due = Some(now.after(wait));
        }
        self.due
    }
}

/// The position of the sweep.
pub(crate) struct Sweep {
    /// The number of the QP with which it continues.
    pub(super) next: u32,
    /// This round found a QP in the error state, so that there will be another round.
    pub(super) found: bool,
    /// The device is gone.
    ended: bool,
}

impl Sweep {
    /// A sweep that has not begun.
    pub(crate) const NEW: Self = Sweep {
        next: 0,
        found: false,
        ended: false,
    };
}

impl_has_timer! { impl HasTimer<0> for Core { self.sweep_timer } }
workqueue::impl_has_work! { impl HasWork<Core> for Core { self.sweep_work } }

/// Starts the sweep of the device, if it is not running, for a QP that no longer polls its own
/// ring. Softirq or process context.
pub(crate) fn start(core: &Arc<Core>) {
    let sweep = core.sweep.lock();
    if !sweep.ended {
        core.sweep_timer
            .arm_at(core.as_arc_borrow(), timer::now_ns().saturating_add(PERIOD));
    }
}

/// Ends the sweep for good. Process context.
pub(crate) fn end(core: &Core) {
    core.sweep.lock().ended = true;
    core.sweep_timer.cancel();
}
