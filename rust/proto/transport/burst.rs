// SPDX-License-Identifier: GPL-2.0

//! When small requests may wait for others to go with.
//!
//! A program that posts one small message after the other, and wants no completion for most of them, is
//! served best by packets that travel together: the network stack, the receiver and the wake-up of the
//! program there cost as much for thirty-two as for one. So once posts follow each other closely, such
//! requests wait until there are thirty-two, or as many bytes as make a row of packets; until one comes that
//! somebody waits for (signaled, solicited or fenced) or that is long; or until the program seems to have
//! stopped: nothing was posted for as long as thirty-two posts usually take, or a moment has passed. After a
//! pause it begins anew, unless such posts came between the pauses twice: a program that serves many queue
//! pairs in turn posts so. A request that stands alone does not wait, nor one of a program that is being
//! talked to. READs and atomics wait as others do: their program learns of the answer by a completion, its
//! own or that of a later one.

use super::{Instant, Request, SendQueue};

/// How long a request waits at most, in nanoseconds.
pub(super) const MOMENT: u64 = 200_000;

/// How long a program may take for its next post, however fast it was before, in nanoseconds.
const BREATH: u64 = 10_000;

/// How close posts must follow each other, in nanoseconds. Where programs share a processor, the receiver
/// may have its turn between two of them.
const CLOSE: u64 = 250_000;

/// How many posts must have followed each other closely; and fewer were not worth the wait.
const STREAK: u8 = 8;

/// How many at most, after requests have waited for nothing time and again.
const CAUTION: u8 = 128;

/// How many times in a row, between two pauses, there must have been such posts for the next ones to wait from the first
/// on.
const HABIT: u8 = 2;

/// How many requests go together.
pub(super) const TOGETHER: u32 = 32;

/// How many bytes do: about as many as the network stack takes as one.
const FULL: u32 = 65_536;

/// The longest message that waits, in bytes: for longer ones there is less to gain.
const SMALL: u32 = FULL / 4;

/// How a program posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Posts that followed each other closely; no more than `needed` are counted.
    streak: u8,
    /// How many it takes for the next one to wait.
    needed: u8,
    /// Pauses before which there was a whole streak, one after the other; no more than [`HABIT`] are counted.
    bursts: u8,
    /// When the latest post was.
    latest: Instant,
    /// How long it usually is from one post to the next, in nanoseconds.
    gap: u64,
    /// One past the newest request that was looked at.
    seen: u32,
    /// The bytes of those that wait.
    bytes: u32,
    /// When they have waited for a moment.
    limit: Instant,
    /// Until when the requests that have not begun may wait, while that is all they wait for.
    pub(super) until: Option<Instant>,
}

impl Burst {
    /// Of a program that has not posted anything.
    pub(super) const NEW: Self = Burst {
        streak: 0,
        needed: STREAK,
        bursts: 0,
        latest: Instant(0),
        gap: 0,
        seen: 0,
        bytes: 0,
        limit: Instant(0),
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
        let waiting = tail.wrapping_sub(next);
        if now >= until {
            if !self.release(waiting) {
                self.streak = 0;
                self.bursts = 0;
                self.needed = self.needed.saturating_mul(2).min(CAUTION);
            }
        } else if waiting >= TOGETHER || self.bytes >= FULL {
            self.release(waiting);
        }
        self.until.is_some()
    }

    /// Looks at what was posted since the last time.
    #[inline]
    fn look<Q: SendQueue>(&mut self, now: Instant, next: u32, tail: u32, q: &Q) {
        let newest = tail.wrapping_sub(1);
        let single = newest == self.seen;
        let gap = now.0.saturating_sub(self.latest.0);
        if gap > CLOSE {
            self.pause();
        } else {
            self.learn(gap);
        }
        self.seen = tail;
        self.latest = now;
        let len = q.get(newest).and_then(may_wait).filter(|_| single);
        if let Some(len) = len {
            self.one_more(now, newest == next, len);
        } else {
            // A program that posts several at once needs no help. Whatever waits goes with it.
            self.release(tail.wrapping_sub(next));
            if !single {
                self.streak = 0;
            }
        }
    }

    /// A request of `len` bytes may wait, if it is the `first` to do so or some do already.
    #[inline]
    fn one_more(&mut self, now: Instant, first: bool, len: u32) {
        if self.streak < self.needed {
            self.streak = self.streak.saturating_add(1);
            return;
        }
        if self.until.is_none() {
            if !first {
                // Those before it wait for something else.
                return;
            }
            self.limit = now.after(MOMENT);
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(len);
        let idle = self.gap.saturating_mul(TOGETHER.into()).max(BREATH);
        self.until = Some(self.limit.min(now.after(idle)));
    }

    /// So many have waited long enough. Whether it was worth while.
    #[inline]
    fn release(&mut self, waiting: u32) -> bool {
        let worth = waiting >= STREAK.into() || self.bytes >= FULL;
        if self.until.take().is_some() && worth {
            self.needed = STREAK;
        }
        worth
    }

    /// It was `gap` nanoseconds from one post to the next. A long one is no news: the program may have lost its
    /// processor for a while.
    #[inline]
    fn learn(&mut self, gap: u64) {
        let likely = self.gap.saturating_mul(2).saturating_add(1_000);
        self.gap = self.gap.saturating_mul(3).saturating_add(gap.min(likely)) / 4;
    }

    /// Nothing was posted for a while.
    #[inline]
    fn pause(&mut self) {
        if self.streak < self.needed {
            self.bursts = 0;
        } else if self.bursts < HABIT {
            self.bursts = self.bursts.saturating_add(1);
        }
        if self.bursts < HABIT {
            self.streak = 0;
        }
        self.needed = (self.needed / 2).max(STREAK);
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

/// The length of `request` if nobody waits for it in particular.
#[inline]
fn may_wait(request: &Request) -> Option<u32> {
    let waits = !request.signaled
        && !request.solicited
        && !request.fence
        && request.len <= SMALL
        && request.broken_by().is_none();
    waits.then_some(request.len)
}
