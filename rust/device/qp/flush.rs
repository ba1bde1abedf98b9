// SPDX-License-Identifier: GPL-2.0

//! Receives that a process posts in the error state, of which no doorbell tells. They are to be
//! flushed (IBTA 10.3.1.7), so their ring must be polled.
//!
//! For a moment a QP that came to the error state does so itself, as that is when consumers drain
//! their queues. From then on one sweep does it for all QPs of the device: so many a second,
//! however many there are and whatever their processes do, as no process is charged for it.

use super::progress::Input;
use crate::device::{limits, Core};
use crate::proto::transport::Instant;
use crate::sync::timer;
use kernel::sync::Arc;
use kernel::workqueue;

/// How long a QP polls itself, in nanoseconds. The first wait, from which on each is as long as all
/// before it.
const OWN_TIME: u64 = FIRST_WAIT << 8;
const FIRST_WAIT: u64 = 10_000_000;

/// How long the sweep waits between two steps, in nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// How many receives of one QP a step of the sweep flushes at most.
const SWEEP_BUDGET: u32 = 1024;

/// When a QP in the error state looks for receives, and how many it flushes until it looks again.
pub(crate) struct FlushPoll {
    /// When it came to the error state.
    since: Option<Instant>,
    due: Option<Instant>,
    budget: u32,
}

impl FlushPoll {
    /// Of a QP that is not in the error state.
    pub(crate) const NEW: Self = FlushPoll {
        since: None,
        due: None,
        budget: limits::MAX_QP_WR,
    };

    /// The QP is run. What a process can have posted may be flushed if the process itself asks for
    /// it, or a wait is over; the sweep flushes some.
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

    /// When to look again; `None` once that is left to the sweep.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.0.saturating_sub(since.0);
        if self.due.is_none() && elapsed < OWN_TIME {
            let wait = elapsed.max(FIRST_WAIT).min(OWN_TIME - elapsed);
            self.due = Some(now.after(wait));
        }
        self.due
    }
}

/// Where the sweep is.
pub(crate) struct Sweep {
    /// The number of the QP that it goes on with.
    pub(super) next: u32,
    /// A QP of this round is in the error state, so that there will be another one.
    pub(super) found: bool,
    /// The device is gone.
    ended: bool,
}

impl Sweep {
    /// At the beginning.
    pub(crate) const NEW: Self = Sweep {
        next: 0,
        found: false,
        ended: false,
    };
}

crate::impl_has_timer! { impl HasTimer<0> for Core { self.sweep_timer } }
workqueue::impl_has_work! { impl HasWork<Core> for Core { self.sweep_work } }

/// Has the device swept, if it is not yet: for a QP which then has no wait of its own. Softirq or
/// process context.
pub(crate) fn start(core: &Arc<Core>) {
    let sweep = core.sweep.lock();
    if !sweep.ended {
        core.sweep_timer
            .arm_at(core.as_arc_borrow(), timer::now_ns().saturating_add(PERIOD));
    }
}

/// Ends it for good. Process context.
pub(crate) fn end(core: &Core) {
    core.sweep.lock().ended = true;
    core.sweep_timer.cancel();
}
