// SPDX-License-Identifier: GPL-2.0

//! When silence means that something was lost.
//!
//! A receiver notices a lost packet by the next one (IBTA 9.7.5.2, PSN sequence error). When it was the last one,
//! or when the answer to that was lost, nobody notices but the requester, and by its ACK timeout alone, which
//! programs set to a thousand times what an answer takes. So when an answer has not come for several times as long
//! as answers usually take, what asked for it is sent once more. The receiver acknowledges it again or says
//! what it misses, as it does for any packet that comes twice (IBTA 9.7.5.1.3). Such a probe is none of the
//! retries that IBTA 9.9.2.1 counts, and the timeout runs on meanwhile.
//!
//! How long that is follows from round trips as in RFC 6298, section 2; the probe itself is that of RFC 8985,
//! section 7.

use super::wire::Psn;
use super::Instant;

/// The shortest wait, in nanoseconds: longer than an ACK may wait for company at the other end, and than a
/// busy machine keeps a packet waiting.
pub(super) const SHORTEST: u64 = 1_000_000;

/// The same while nothing was ever lost: a timer that goes off for nothing costs as much as a packet.
pub(super) const CAREFREE: u64 = 4_000_000;

/// How many probes follow each other, each after twice the time of the one before: they may be lost, too.
const PROBES: u8 = 3;

/// Round trips as they were lately, and the silence now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Smoothed round trip and its mean deviation, in nanoseconds; nothing is known yet when both are 0.
    smoothed: u64,
    deviation: u64,
    shortest: u64,
    /// An answer about everything before this PSN was asked for then, and had not been before.
    asked: Option<(Psn, Instant)>,
    /// Probes sent since something was acknowledged.
    sent: u8,
    /// When the next one is due.
    pub(super) due: Option<Instant>,
}

impl Probe {
    /// Of a connection that has sent nothing.
    pub(super) const NEW: Self = Probe {
        smoothed: 0,
        deviation: 0,
        shortest: CAREFREE,
        asked: None,
        sent: 0,
        due: None,
    };

    /// An answer about everything before `end` was asked for, by a `fresh` packet or by one that was sent before:
    /// it does not show whose answer comes then (RFC 6298, section 3, Karn's algorithm). Without an answer the
    /// requester acts after `timeout` nanoseconds in any case; `None` stands for never, and then it shall not act
    /// at all.
    #[inline]
    pub(super) fn ask(&mut self, now: Instant, end: Psn, fresh: bool, timeout: Option<u64>) {
        if fresh && self.asked.is_none() {
            self.asked = Some((end, now));
        }
        self.wait(now, timeout);
    }

    /// Everything before `una` was answered; whether `more` is in flight.
    #[inline]
    pub(super) fn answer(&mut self, now: Instant, una: Psn, more: bool, timeout: Option<u64>) {
        self.sent = 0;
        if let Some((_, then)) = self.asked.take_if(|(end, _)| una.distance(*end) >= 0) {
            self.learn(now.0.saturating_sub(then.0));
        }
        self.due = None;
        if more {
            self.wait(now, timeout);
        }
    }

    /// Nothing is waited for: what is in flight will be sent again, as something may be lost.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.asked = None;
        self.due = None;
        self.shortest = SHORTEST;
    }

    /// Whether a probe was sent before the last one, and brought no answer.
    pub(super) fn was_in_vain(&self) -> bool {
        self.sent > 1
    }

    /// Whether a probe is due. Says so once.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.restart();
        self.sent = self.sent.saturating_add(1);
        true
    }

    #[inline]
    fn wait(&mut self, now: Instant, timeout: Option<u64>) {
        self.due = None;
        if self.smoothed == 0 || self.sent >= PROBES {
            return;
        }
        let usual = self
            .smoothed
            .saturating_add(self.deviation.saturating_mul(4));
        let nanos = usual.max(self.shortest) << self.sent;
        if timeout.is_some_and(|timeout| nanos < timeout / 2) {
            self.due = Some(now.after(nanos));
        }
    }

    /// Takes a round trip into account (RFC 6298, 2.2 and 2.3).
    #[inline]
    fn learn(&mut self, nanos: u64) {
        // A clock that stood still is no reason to know nothing.
        let nanos = nanos.max(1);
        if self.smoothed == 0 {
            self.smoothed = nanos;
            self.deviation = nanos / 2;
        } else {
            let off = self.smoothed.abs_diff(nanos);
            self.deviation = (self.deviation - self.deviation / 4).saturating_add(off / 4);
            self.smoothed = (self.smoothed - self.smoothed / 8)
                .saturating_add(nanos / 8)
                .max(1);
        }
    }
}
