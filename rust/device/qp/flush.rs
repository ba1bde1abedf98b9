// SPDX-License-Identifier: GPL-2.0

//! Flush poll: finds receives that a process posts in the error state. They must be flushed
//! (IBTA 10.3.1.7), but posting a receive has no doorbell, so the driver polls the ring.
//!
//! For a moment after it entered the error state a QP polls its own ring, as consumers drain their
//! queues then. After that one sweep polls for all QPs of the device. The sweep flushes a limited
//! number of receives a second, independently of the number of QPs and of what their processes do,
//! as no process is charged for its time.

use super::progress::Input;
use crate::device::limits;
use crate::proto::transport::Instant;

/// How long a QP polls its own ring, in nanoseconds, and the first wait. Each further wait is as
/// long as all before it together.
const SELF_POLL_NS: u64 = FIRST_WAIT << 8;
const FIRST_WAIT: u64 = 10_000_000;

/// How long the sweep waits between two steps, in nanoseconds.
pub(super) const SWEEP_PERIOD: u64 = 1_000_000_000;

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
    pub(super) ended: bool,
}

impl Sweep {
    /// A sweep that has not begun.
    pub(crate) const NEW: Self = Sweep {
        next: 0,
        found: false,
        ended: false,
    };
}
