// SPDX-License-Identifier: GPL-2.0

//! The reaction point of a queue pair: spaces its packets with payload at the rate that congestion
//! notifications leave it (IBTA annex A17.9.3).
//!
//! The rate is of all that the queue pair sends: requests, and responses to READs of its peer. It
//! is apart from congestion windows, each of which is of one direction.
//!
//! A timer for each packet would cost more than the packet. So packets go in bursts of what the
//! rate sends in some tens of microseconds, which may be super-packets.

use super::dcqcn::{Dcqcn, Params};
use super::{Instant, Transmit};

/// How long the rate takes for a burst, in nanoseconds, if that is more than a packet. A sender
/// that is late by no more than this catches up.
pub const BURST_NS: u64 = 60_000;

/// Bytes of a packet besides its payload, about: IPv4, UDP, BTH and ICRC.
const OVERHEAD: u32 = 44;

const NANOS_TIMES_BITS: u64 = 8_000_000_000;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct ReactionPoint {
    /// `None`: notifications are ignored.
    rate: Option<Dcqcn>,
    /// The rate is limited.
    limited: bool,
    /// A burst is over, and the next one begins at `next`.
    holds: bool,
    /// Packets wait for that.
    waits: bool,
    /// When the rate will have sent what was sent.
    next: Instant,
    /// Bytes that the burst has left.
    left: u64,
}

impl ReactionPoint {
    /// One that ignores notifications.
    pub const NONE: Self = ReactionPoint {
        rate: None,
        limited: false,
        holds: false,
        waits: false,
        next: Instant(0),
        left: 0,
    };

    /// DCQCN, on a line of so many Mb/s.
    pub fn dcqcn(params: Params, line: u32) -> Self {
        ReactionPoint {
            rate: Some(Dcqcn::new(params, line)),
            ..Self::NONE
        }
    }

    /// The same without any notification yet.
    #[must_use]
    pub(in super::super) fn restarted(&self) -> Self {
        let rate = self.rate.map(|rate| rate.restarted());
        ReactionPoint { rate, ..Self::NONE }
    }

    /// Whether notifications have an effect: then its packets with payload are ECN-capable.
    #[inline]
    pub fn reacts(&self) -> bool {
        self.rate.is_some()
    }

    /// Whether the rate is limited.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// The rate in bits per second, if it is limited.
    pub fn rate(&mut self, now: Instant) -> Option<u64> {
        let rate = self.rate.as_mut().and_then(|rate| rate.rate(now));
        self.limited = rate.is_some();
        rate
    }

    /// The rate in bits per second as it was when it was last looked at, if it was limited then.
    pub fn last_rate(&self) -> Option<u64> {
        self.rate
            .as_ref()
            .filter(|_| self.limited)
            .map(Dcqcn::last_rate)
    }

    /// The network is congested. Returns whether this reacts.
    #[cold]
    pub fn on_notification(&mut self, now: Instant) -> bool {
        let Some(rate) = &mut self.rate else {
            return false;
        };
        rate.on_cnp(now);
        self.limited = rate.rate(now).is_some();
        true
    }

    /// How many packets with `payload` bytes of payload may be sent now.
    #[cold]
    pub fn admits(&mut self, now: Instant, payload: u32) -> u16 {
        let Some(rate) = self.rate(now) else {
            self.holds = false;
            self.waits = false;
            return u16::MAX;
        };
        self.waits = false;
        if self.holds && now < self.next {
            return 0;
        }
        self.holds = false;
        let room = now.after(BURST_NS).0.saturating_sub(self.begin(now).0);
        let bytes = rate.saturating_mul(room) / NANOS_TIMES_BITS;
        self.left = bytes;
        let packets = bytes / u64::from(payload.saturating_add(OVERHEAD));
        u16::try_from(packets).unwrap_or(u16::MAX).max(1)
    }

    /// Packets wait until they are admitted, after [`ReactionPoint::admits`] returned 0.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    /// When what is sent now counts as sent: after what was sent, but this may be late.
    fn begin(&self, now: Instant) -> Instant {
        self.next.max(Instant(now.0.saturating_sub(BURST_NS)))
    }

    /// How many more packets with `payload` bytes of payload the burst has room for, about.
    #[cold]
    pub fn left(&self, payload: u32) -> u32 {
        let packets = self.left / u64::from(payload.saturating_add(OVERHEAD));
        match self.holds {
            true => 0,
            false => u32::try_from(packets).unwrap_or(u32::MAX),
        }
    }

    /// `transmit` is sent.
    #[cold]
    pub fn on_sent(&mut self, now: Instant, transmit: &Transmit) {
        let payload = transmit.payload.len();
        if payload == 0 {
            return;
        }
        let overhead = OVERHEAD.saturating_mul(transmit.segments.into());
        let bytes = payload.saturating_add(overhead);
        let Some(rate) = self.rate(now) else {
            return;
        };
        let nanos = u64::from(bytes).saturating_mul(NANOS_TIMES_BITS) / rate.max(1);
        self.next = self.begin(now).after(nanos);
        self.holds = self.next >= now.after(BURST_NS);
        self.left = self.left.saturating_sub(bytes.into());
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, bytes);
        }
    }

    /// Packets were taken back: they may be sent at once.
    #[cold]
    pub fn on_undo(&mut self) {
        self.holds = false;
        self.next = Instant(0);
    }

    /// When packets that wait may be sent, if any wait.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.waits.then_some(self.next)
    }

    /// The time is `now`: what waits until then may be sent.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.waits = self.waits && now < self.next;
    }
}
