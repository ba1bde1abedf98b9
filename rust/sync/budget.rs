// SPDX-License-Identifier: GPL-2.0

//! A budget of softirq time for each user. Softirq work is charged to no process, and goes before
//! all of them: a user who has spent the budget is served in process context.
//!
//! A user may take a tenth of a CPU's time, and a millisecond at once. An account is the time until
//! which the user has spent the budget (a leaky bucket). There are a few accounts for all users,
//! who share one if their numbers have the same hash.

use super::user;
use kernel::sync::atomic::{Atomic, Relaxed};

/// The number of accounts: a power of two.
const ACCOUNTS: usize = 64;

/// Each nanosecond of work spends the budget of so many.
const PRICE: u64 = 10;

/// How far ahead the budget may be spent, in nanoseconds.
const AHEAD: u64 = 1_000_000 * PRICE;

static SPENT_UNTIL: [Atomic<u64>; ACCOUNTS] = [const { Atomic::new(0) }; ACCOUNTS];

/// The account of a user.
#[derive(Clone, Copy)]
pub(crate) struct SoftirqBudget(&'static Atomic<u64>);

impl SoftirqBudget {
    /// That of the calling process's user. Process context.
    pub(crate) fn of_current_user() -> Self {
        // Fibonacci hashing: the upper bits of the product are those of the hash.
        let hash = user::current_id().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let [first, ..] = &SPENT_UNTIL;
        SoftirqBudget(SPENT_UNTIL.get(hash as usize).unwrap_or(first))
    }

    /// Whether the budget is spent at the time `now`, in nanoseconds. Any context.
    #[inline]
    pub(crate) fn is_spent(self, now: u64) -> bool {
        self.0.load(Relaxed) > now.saturating_add(AHEAD)
    }

    /// Charges the work from `since` to `now`. Several CPUs may do so at a time; where two meet one
    /// charge may be lost. Any context.
    #[inline]
    pub(crate) fn charge(self, since: u64, now: u64) {
        let price = now.saturating_sub(since).saturating_mul(PRICE);
        let spent = self.0.load(Relaxed).max(now);
        self.0.store(spent.saturating_add(price), Relaxed);
    }
}
