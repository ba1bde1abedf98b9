// SPDX-License-Identifier: GPL-2.0

//! A budget of softirq time for each user. Softirq work is charged to no process, and goes before
//! all of them: a user who has spent the budget is served in process context.
//!
//! On each CPU a user may take half of the time by short runs, as latency-bound traffic has, and a
//! twentieth by long ones, which copy large messages; and a millisecond, or a tenth of one, at
//! once. An account is the time until which the user has spent the budget there (a leaky bucket).
//! There are a few accounts for all users, who share one if their numbers have the same hash.

use super::user;
use crate::ffi;
use kernel::sync::atomic::{Atomic, Relaxed};

/// The part of a run that is charged at the price of a short one, in nanoseconds.
const SHORT_RUN_NS: u64 = 10_000;

/// Each nanosecond of work spends the budget of so many, in that part and after it.
const SHORT_PRICE: u64 = 2;
const LONG_PRICE: u64 = 20;

/// How far ahead the budget may be spent, in nanoseconds.
const AHEAD_NS: u64 = 2_000_000;

/// The accounts of a user.
#[derive(Clone, Copy)]
pub(crate) struct SoftirqBudget {
    hash: u32,
}

impl SoftirqBudget {
    /// That of the calling process's user. Process context.
    pub(crate) fn of_current_user() -> Self {
        // Fibonacci hashing: the upper bits of the product are those of the hash.
        let product = user::current_id().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        SoftirqBudget {
            // CAST: 32 bits are left after the shift.
            hash: (product >> 32) as u32,
        }
    }

    /// A run begins on this CPU at the time `now`, in nanoseconds. `None` if the budget is spent
    /// here. Softirq.
    #[inline]
    pub(crate) fn begin(&self, now: u64) -> Option<Run<'_>> {
        // SAFETY: the helper returns a variable of the module's, which is aligned and initialised,
        // and which has no other accesses than those by such a reference. The module stays while
        // its code runs.
        let account = unsafe { Atomic::from_ptr(ffi::oxe_softirq_account(self.hash)) };
        let spent_until = account.load(Relaxed);
        let run = Run {
            account,
            begin: now,
        };
        (spent_until <= now.saturating_add(AHEAD_NS)).then_some(run)
    }
}

/// A run in a softirq, which does not leave its CPU.
pub(crate) struct Run<'a> {
    account: &'a Atomic<u64>,
    begin: u64,
}

impl Run<'_> {
    /// Charges the run, which ends at the time `now`.
    #[inline]
    pub(crate) fn end(self, now: u64) {
        let time = now.saturating_sub(self.begin);
        let short = time.min(SHORT_RUN_NS).wrapping_mul(SHORT_PRICE);
        let long = time.saturating_sub(SHORT_RUN_NS).saturating_mul(LONG_PRICE);
        let spent_until = self.account.load(Relaxed).max(now);
        let spent_until = spent_until.saturating_add(short).saturating_add(long);
        self.account.store(spent_until, Relaxed);
    }
}
