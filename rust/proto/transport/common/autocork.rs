// SPDX-License-Identifier: GPL-2.0

//! Autocork: small requests wait for the next ones, so that they share a GSO super-packet.
//!
//! Some programs post small requests one by one, and want a completion for few of them. It is
//! cheapest to send their packets together: the network stack, the receiver and the wake-up of its
//! program cost as much for thirty-two packets as for one. Once posts follow each other closely,
//! the requester corks such requests until
//! - there are [`MAX_COALESCED`] of them, or [`MAX_COALESCED_BYTES`];
//! - a request comes that a program waits for (signaled, solicited or fenced), or a long one;
//! - the program seems to have stopped: no post in the time that [`MAX_COALESCED`] posts usually
//!   take;
//! - [`MAX_DELAY_NS`] have passed.
//!
//! After a pause the program has to show a streak of posts again, unless it did so between the last
//! two pauses: a program that serves many queue pairs in turn posts like that. It need not show it
//! on each of them: a queue pair whose siblings, those with the same send CQ, made two streaks is
//! corked from its first post on, until that is in vain. A single request is not corked, nor one of
//! a program that receives requests. READs and atomics are corked as well:
//! their program learns of the response by a completion, of the same request or of a later one.

use super::{Instant, Request, RequestQueue, Streaks};

/// The longest time that a request is corked, in nanoseconds.
pub(in super::super) const MAX_DELAY_NS: u64 = 200_000;

/// The shortest time without a post that counts as a stop, in nanoseconds.
const MIN_IDLE_NS: u64 = 10_000;

/// The longest gap between posts of a streak, in nanoseconds. Where programs share a CPU, the
/// receiver may run between two posts.
const MAX_GAP_NS: u64 = 250_000;

/// Posts of a streak before the next one is corked. Coalescing fewer does not pay for the delay.
const MIN_STREAK: u8 = 8;

/// The largest such streak, after corking was in vain several times.
const MAX_STREAK: u8 = 128;

/// Streaks in a row, each ended by a pause, after which posts are corked from the first one on.
const MIN_BURSTS: u8 = 2;

/// Requests that are coalesced at most.
pub(in super::super) const MAX_COALESCED: u32 = 32;

/// Bytes that are coalesced at most: about what one super-packet holds.
const MAX_COALESCED_BYTES: u32 = 65_536;

/// The longest message that is corked, in bytes: longer ones gain little.
const MAX_CORKED_LEN: u32 = MAX_COALESCED_BYTES / 4;

/// The posting pattern of the program, and the corked requests.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Autocork {
    /// Posts that followed each other closely, at most `needed`.
    streak: u8,
    /// The streak that is needed for the next post to be corked.
    needed: u8,
    /// Whole streaks in a row that ended in a pause, at most [`MIN_BURSTS`].
    bursts: u8,
    /// Corking was in vain, or requests of the peer came, since the last streak of this queue pair:
    /// those of its siblings do not count.
    unlike: bool,
    /// The time of the latest post.
    latest: Instant,
    /// The smoothed gap between posts, in nanoseconds.
    gap: u64,
    /// One past the newest request that was seen.
    seen: u32,
    /// Bytes of the corked requests.
    bytes: u32,
    /// The end of [`MAX_DELAY_NS`] for the oldest corked request.
    limit: Instant,
    /// When the corked requests are sent at the latest, if there are any.
    deadline: Option<Instant>,
}

impl Autocork {
    /// The state of a connection on which nothing was posted.
    pub(in super::super) const NEW: Self = Autocork {
        streak: 0,
        needed: MIN_STREAK,
        bursts: 0,
        unlike: false,
        latest: Instant(0),
        gap: 0,
        seen: 0,
        bytes: 0,
        limit: Instant(0),
        deadline: None,
    };

    /// Whether the requests from `next` on, which have not begun, stay corked.
    #[inline(always)]
    pub(in super::super) fn is_corked<Q: RequestQueue>(
        &mut self,
        now: Instant,
        next: u32,
        q: &Q,
    ) -> bool {
        let tail = q.tail();
        if tail != self.seen {
            self.note_posts(now, next, tail, q);
        }
        if self.deadline.is_none() {
            return false;
        }
        self.handle_timeout(now, next, q);
        let corked = tail.wrapping_sub(next);
        if corked >= MAX_COALESCED || self.bytes >= MAX_COALESCED_BYTES {
            self.uncork(corked);
        }
        self.deadline.is_some()
    }

    /// Uncorks the requests from `next` on if their deadline has passed.
    #[inline]
    pub(in super::super) fn handle_timeout<Q: RequestQueue>(
        &mut self,
        now: Instant,
        next: u32,
        q: &Q,
    ) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        if !self.uncork(q.tail().wrapping_sub(next)) {
            self.streak = 0;
            self.bursts = 0;
            self.unlike = true;
            self.needed = self.needed.saturating_mul(2).min(MAX_STREAK);
        }
    }

    /// Takes the requests into account that were posted since the last call.
    #[inline(always)]
    fn note_posts<Q: RequestQueue>(&mut self, now: Instant, next: u32, tail: u32, q: &Q) {
        let newest = tail.wrapping_sub(1);
        let single = newest == self.seen;
        let gap = now.0.saturating_sub(self.latest.0);
        if gap > MAX_GAP_NS {
            self.note_pause();
            self.note_streaks(q.streaks());
        } else {
            self.update_gap(gap);
        }
        self.seen = tail;
        self.latest = now;
        let len = q.get(newest).and_then(corkable_len).filter(|_| single);
        if let Some(len) = len {
            if self.is_streak_whole(q) {
                self.cork(now, newest == next, len);
            }
        } else {
            // A program that posts several requests at once needs no corking. Corked requests go
            // with them.
            self.uncork(tail.wrapping_sub(next));
            if !single {
                self.streak = 0;
            }
        }
    }

    /// Whether the streak is long enough for a post to be corked; if not, the post belongs to it.
    #[inline(always)]
    fn is_streak_whole<Q: RequestQueue>(&mut self, q: &Q) -> bool {
        if self.may_cork() {
            return true;
        }
        self.streak = self.streak.saturating_add(1);
        if self.streak == self.needed {
            self.unlike = false;
            let count = q.streaks().count.saturating_add(1).min(MIN_BURSTS);
            // CAST: a smoothed gap is not longer than `MAX_GAP_NS`.
            let gap = self.gap as u32;
            q.set_streaks(Streaks { count, gap });
        }
        false
    }

    /// Corks a request of `len` bytes if it is the `first` that has not begun, or follows corked
    /// ones.
    #[inline]
    fn cork(&mut self, now: Instant, first: bool, len: u32) {
        if self.deadline.is_none() {
            if !first {
                // The requests before it wait for another reason.
                return;
            }
            self.limit = now.after(MAX_DELAY_NS);
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(len);
        let idle = self
            .gap
            .saturating_mul(MAX_COALESCED.into())
            .max(MIN_IDLE_NS);
        self.deadline = Some(self.limit.min(now.after(idle)));
    }

    /// Uncorks `corked` requests. Returns whether these were enough to pay for the delay.
    #[inline]
    fn uncork(&mut self, corked: u32) -> bool {
        let enough = corked >= MIN_STREAK.into() || self.bytes >= MAX_COALESCED_BYTES;
        if self.deadline.take().is_some() && enough {
            self.needed = MIN_STREAK;
        }
        enough
    }

    /// Takes one gap between posts into account, in nanoseconds. A long one counts little: the
    /// program may have lost its CPU for a while.
    #[inline]
    fn update_gap(&mut self, gap: u64) {
        let likely = self.gap.saturating_mul(2).saturating_add(1_000);
        self.gap = self.gap.saturating_mul(3).saturating_add(gap.min(likely)) / 4;
    }

    /// No request was posted for more than [`MAX_GAP_NS`].
    #[inline]
    fn note_pause(&mut self) {
        if self.streak < self.needed {
            self.bursts = 0;
        } else if self.bursts < MIN_BURSTS {
            self.bursts = self.bursts.saturating_add(1);
        }
        if self.bursts < MIN_BURSTS {
            self.streak = 0;
        }
        self.needed = (self.needed / 2).max(MIN_STREAK);
    }

    /// A pause is over, and the program has made these streaks on its other queue pairs.
    #[inline]
    fn note_streaks(&mut self, streaks: Streaks) {
        if !self.unlike && self.bursts < MIN_BURSTS && streaks.count >= MIN_BURSTS {
            self.streak = self.needed;
            self.bursts = MIN_BURSTS;
            self.gap = streaks.gap.into();
        }
    }

    /// When the corked requests are sent at the latest, if there are any.
    #[inline]
    pub(in super::super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether the next post may be corked.
    #[inline]
    pub(in super::super) const fn may_cork(&self) -> bool {
        self.streak >= self.needed
    }

    /// Uncorks all requests.
    #[inline]
    pub(in super::super) fn flush(&mut self) {
        self.deadline = None;
    }

    /// Uncorks all requests and forgets the streak.
    #[inline]
    pub(in super::super) fn reset(&mut self) {
        self.deadline = None;
        self.streak = 0;
        self.bursts = 0;
        self.unlike = true;
    }
}

/// The length of `request`, if it may be corked.
#[inline]
fn corkable_len(request: &Request) -> Option<u32> {
    let corkable = !request.signaled
        && !request.solicited
        && !request.fence
        && !request.op.is_local()
        && request.len <= MAX_CORKED_LEN
        && request.local_error().is_none();
    corkable.then_some(request.len)
}
