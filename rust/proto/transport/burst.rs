// SPDX-License-Identifier: GPL-2.0

//! When small requests may wait for others to go with.
//!
//! A program that posts one small message after the other, and wants no completion for most of them, is
//! served best by packets that travel together: the network stack, the receiver and the wake-up of the
//! program there cost as much for sixteen as for one. So once posts follow each other closely, such
//! requests wait until there are sixteen, until one comes that somebody waits for (signaled, fenced, long,
//! or one that asks for an answer), or for a moment; whichever is first. After a pause it begins anew, unless
//! such posts came between the pauses twice: a program that serves many queue pairs in turn posts so. A
//! request that stands alone does not wait, nor one of a program that is being talked to.

use super::{Instant, Request, SendQueue};

/// How long a request waits at most, in nanoseconds.
pub(super) const MOMENT: u64 = 100_000;

/// How close posts must follow each other, in nanoseconds. Where programs share a processor, the receiver
/// may have its turn between two of them.
const CLOSE: u64 = 250_000;

/// How many posts must have followed each other closely.
const STREAK: u8 = 8;

/// How many times in a row, between two pauses, there must have been such posts for the next ones to wait from the first
/// on.
const HABIT: u8 = 2;

/// How many requests go together.
pub(super) const TOGETHER: u32 = 16;

/// The longest message that waits, in bytes: for longer ones there is less to gain.
const SMALL: u32 = 512;

/// How a program posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Posts that followed each other closely; no more than [`STREAK`] are counted.
    streak: u8,
    /// Pauses before which there was a whole streak, one after the other; no more than [`HABIT`] are counted.
    bursts: u8,
    /// When the latest post was.
    latest: Instant,
    /// One past the newest request that was looked at.
    seen: u32,
    /// Until when the requests that have not begun may wait, while that is all they wait for.
    pub(super) until: Option<Instant>,
}

impl Burst {
    /// Of a program that has not posted anything.
    pub(super) const NEW: Self = Burst {
        streak: 0,
        bursts: 0,
        latest: Instant(0),
        seen: 0,
        until: None,
    };

    /// Whether the requests from `next` on, which have not begun, are to wait.
    #[inline]
    pub(super) fn holds<Q: SendQueue>(&mut self, now: Instant, next: u32, q: &Q) -> bool {
        let tail = q.tail();
        if tail != self.seen {
            self.look(now, next, tail, q);
        }
        let Some(until) = self.until else {
            return false;
        };
        if now >= until {
            // The program may have stopped posting.
            self.until = None;
            self.streak /= 2;
            self.bursts = 0;
        } else if tail.wrapping_sub(next) >= TOGETHER {
            self.until = None;
        }
        self.until.is_some()
    }

    /// Looks at what was posted since the last time.
    #[inline]
    fn look<Q: SendQueue>(&mut self, now: Instant, next: u32, tail: u32, q: &Q) {
        let newest = tail.wrapping_sub(1);
        let single = newest == self.seen;
        if now > self.latest.after(CLOSE) {
            self.pause();
        }
        self.seen = tail;
        self.latest = now;
        if !single || !q.get(newest).is_some_and(may_wait) {
            // A program that posts several at once needs no help. Whatever waits goes with it.
            self.until = None;
            if !single {
                self.streak = 0;
            }
        } else if self.streak < STREAK {
            self.streak = self.streak.saturating_add(1);
        } else if self.until.is_none() && newest == next {
            // Those before it, if there were any, would not be waiting for company.
            self.until = Some(now.after(MOMENT));
        }
    }

    /// Nothing was posted for a while.
    #[inline]
    fn pause(&mut self) {
        if self.streak < STREAK {
            self.bursts = 0;
        } else if self.bursts < HABIT {
            self.bursts = self.bursts.saturating_add(1);
        }
        if self.bursts < HABIT {
            self.streak = 0;
        }
    }

    /// Lets nothing wait any longer.
    #[inline]
    pub(super) fn go(&mut self) {
        self.until = None;
    }

    /// Lets nothing wait any longer, nor soon again.
    #[inline]
    pub(super) fn end(&mut self) {
        self.until = None;
        self.streak = 0;
        self.bursts = 0;
    }
}

/// Whether nobody waits for `request` in particular.
#[inline]
fn may_wait(request: &Request) -> bool {
    !request.signaled
        && !request.solicited
        && !request.fence
        && request.len <= SMALL
        && request.broken_by().is_none()
        && !request.op.wants_response()
}
