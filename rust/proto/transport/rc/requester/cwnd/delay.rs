// SPDX-License-Identifier: GPL-2.0

//! Congestion control by delay, after Swift (Kumar et al., "Swift: Delay is Simple and Effective
//! for Congestion Control in the Datacenter", SIGCOMM 2020): the window grows while round trips are
//! shorter than a target, and shrinks when one is longer, so that queues stay short. It is for
//! networks of its own: a sender that fills queues takes its share.
//!
//! Windows are kept in 1/256 packet. One round trip is measured at a time, so what was done at the
//! end of one shows in the next.
//!
//! Swift's target is configured, for the length of the path and for time stamps of hardware. Here
//! it is made of what the connection measures. It is the sum of
//!
//! - the base, the shortest round trip of the last ten to twenty seconds;
//! - an eighth of that for the queue, or twice the mean deviation of round trips if that is more,
//!   up to the base or 50 us: hosts without such time stamps add a noise of their own, by
//!   interrupts, the scheduler, or an emulated CPU;
//! - a part of the base that is the larger the smaller the window is (Swift, flow scaling):
//!   many connections have a longer queue, and of two windows the smaller one grows while the other
//!   shrinks.
//!
//! A connection that begins while others have filled the queue takes that for the base. So if the
//! base was not seen for long, the window is a quarter of its size for one round trip. Connections
//! that share a queue see its shortest time together, and so they do this together.

use super::{Ack, CongestionControl, Delay, Loss, MAX_WINDOW};

/// A packet.
const ONE: u32 = 256;

/// Swift, algorithm 1: a round trip that is longer than the target by a part of itself takes four
/// fifths of that part (beta is 0.8) of the window, and half of the window at most (max_mdf). A
/// loss takes half, too.
const BETA_FIFTHS: u64 = 4;
const MOST: u32 = 2;

/// Swift, algorithm 1: the window grows by a packet in each round trip. What is little for a
/// connection is much for many, so it is a part of the window if that is less; of the smallest
/// windows, a part of a packet.
const GROWTH: u32 = ONE;
const GROWTH_PART: u32 = 16;
const LEAST_GROWTH: u32 = ONE / 16;

/// The queue has this part of the base.
const QUEUE_PART: u64 = 8;

/// So much noise is none of the network, in nanoseconds, even where the base is short.
const NOISE_NS: u64 = 50_000;

/// Swift's flow scaling, for windows from 0.1 to 100 packets, as 256 times the inverse square
/// roots of these; the part of the base that it adds for the smallest ones.
const MOST_SCALED: u64 = 810;
const LEAST_SCALED: u64 = 26;
const SCALED_PART: u64 = 2;

/// How long the shortest round trip counts at least, in nanoseconds.
const BASE_NS: u64 = 10_000_000_000;

/// The base was seen if a round trip is no longer than that by this part. If it was not for so many
/// times itself, a round trip has a quarter of the window; for less, if the base has just become
/// shorter, since it may be shorter still.
const NEAR_PART: u64 = 32;
const UNSEEN: u64 = 64;
const SOON: u64 = 4;
const DRAINED_PART: u32 = 4;

/// Below this window request packets are paced. Swift does so below one packet (large-scale
/// incast): there it is hardware that paces above.
const SMALL: u32 = 4 * ONE;

/// Smallest windows: Swift's is 0.001 packets. Of READ responses one is under way while another is
/// asked for.
const MIN_WINDOW: u32 = ONE / 16;
const MIN_READ_WINDOW: u32 = 2 * ONE;

/// Initial windows. Connections that begin together must not make a queue that they take for a part
/// of the path.
const INITIAL_WINDOW: u32 = 8 * ONE;

/// No time of a round trip is longer, in nanoseconds: a minute. Multiples of it do not overflow.
const LONGEST: u64 = 1 << 36;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DelayBased {
    window: u32,
    /// Slow start threshold: below it the window doubles in each round trip.
    ssthresh: u32,
    /// The smallest window.
    min: u32,
    /// Packets acknowledged since the last round trip that was measured.
    acked: u32,
    /// The shortest round trip, and the shortest one since `renewed`, in nanoseconds. Both are
    /// `LONGEST` before the first one.
    base: u64,
    next_base: u64,
    renewed: u64,
    /// When the base was seen last, and how many times itself it may be unseen.
    seen: u64,
    patience: u64,
    /// The mean of the round trips, 0 before the first one, and their mean deviation from that.
    mean: u64,
    deviation: u64,
    /// The window of before, while a round trip has a part of it.
    drained: Option<u32>,
}

impl DelayBased {
    const fn new(min: u32) -> Self {
        DelayBased {
            window: INITIAL_WINDOW,
            ssthresh: MAX_WINDOW * ONE,
            min,
            acked: 0,
            base: LONGEST,
            next_base: LONGEST,
            renewed: 0,
            seen: 0,
            patience: SOON,
            mean: 0,
            deviation: 0,
            drained: None,
        }
    }

    /// The longest round trip that is not too long, in nanoseconds.
    fn target(&self) -> u64 {
        let noise = (2 * self.deviation).min(self.base.max(NOISE_NS));
        let root = u64::from((ONE * ONE * ONE / self.window.max(1)).isqrt());
        let small = root.clamp(LEAST_SCALED, MOST_SCALED) - LEAST_SCALED;
        let scaled = self.base / SCALED_PART * small / (MOST_SCALED - LEAST_SCALED);
        self.base + noise.max(self.base / QUEUE_PART) + scaled
    }

    /// A round trip of so many nanoseconds ends.
    fn note(&mut self, now: u64, nanos: u64) {
        if now.saturating_sub(self.renewed) > BASE_NS {
            self.base = self.next_base;
            self.next_base = LONGEST;
            self.renewed = now;
        }
        if nanos < self.base - self.base / 8 {
            self.patience = SOON;
        }
        self.base = self.base.min(nanos);
        self.next_base = self.next_base.min(nanos);
        if self.mean == 0 {
            self.mean = nanos;
            return;
        }
        // RFC 6298 2.3.
        let off = self.mean.abs_diff(nanos);
        self.deviation = self.deviation - self.deviation / 4 + off / 4;
        self.mean = self.mean - self.mean / 8 + nanos / 8;
    }

    /// Whether the queue is to be drained, to see the base: after a round trip of so many
    /// nanoseconds.
    fn drains(&mut self, now: u64, nanos: u64) -> bool {
        let unseen = now.saturating_sub(self.seen) > self.base * self.patience;
        if nanos <= self.base + self.base / NEAR_PART {
            self.seen = now;
            return false;
        }
        if unseen {
            self.seen = now;
            self.patience = UNSEEN;
        }
        unseen
    }

    /// The window shrinks to this one, and slow start ends.
    fn shrink(&mut self, window: u32) {
        self.drained = None;
        self.window = window.max(self.min).min(self.window);
        self.ssthresh = self.window;
    }

    /// The window while nothing is drained.
    fn whole(&self) -> u32 {
        self.drained.unwrap_or(self.window)
    }
}

impl CongestionControl for DelayBased {
    const REQUESTS: Self = Self::new(MIN_WINDOW);
    const RESPONSES: Self = Self::new(MIN_READ_WINDOW);

    #[inline]
    fn window(&self) -> u32 {
        (self.window / ONE).max(1)
    }

    fn interval(&self, rtt: u64) -> Option<u64> {
        let packet = rtt.saturating_mul(ONE.into()) / u64::from(self.window.max(1));
        (self.window < SMALL).then_some(packet)
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh / ONE
    }

    fn on_ack(&mut self, ack: Ack) {
        let packets = ack.packets.min(MAX_WINDOW);
        self.acked = self.acked.saturating_add(packets);
        let used = ack.in_flight.saturating_add(packets);
        // RFC 5681 3.1, RFC 3465 2.2; RFC 9438 5.8: not if the window is not used.
        if self.window < self.ssthresh && used.saturating_mul(2 * ONE) >= self.window {
            let more = (packets * ONE).min(self.window);
            self.window = self.window.saturating_add(more).min(self.ssthresh);
        }
    }

    fn on_loss(&mut self, _: Loss) {
        self.shrink(self.whole() / MOST);
    }

    fn on_timeout(&mut self, _: Loss) {
        let half = self.whole() / MOST;
        self.shrink(self.min);
        self.ssthresh = half.max(self.min);
        // The path may be another one.
        self.base = LONGEST;
        self.next_base = LONGEST;
        self.mean = 0;
        self.deviation = 0;
    }

    #[inline]
    fn restarts(&self) -> bool {
        false
    }

    fn on_restart(&mut self) {}

    fn measures(&self) -> bool {
        true
    }

    fn on_delay(&mut self, delay: Delay) {
        let (now, nanos) = (delay.now.0, delay.nanos.clamp(1, LONGEST));
        let acked = core::mem::take(&mut self.acked);
        self.note(now, nanos);
        if let Some(before) = self.drained.take() {
            self.window = before;
            self.ssthresh = before;
            return;
        }
        if self.drains(now, nanos) {
            self.drained = Some(self.window);
            self.window = (self.window / DRAINED_PART).max(self.min).min(self.window);
            self.ssthresh = self.window;
            return;
        }
        let over = nanos.saturating_sub(self.target());
        if over > 0 {
            let cut = u64::from(self.window) * over / nanos * BETA_FIFTHS / 5;
            let window = u64::from(self.window).saturating_sub(cut) as u32;
            self.shrink(window.max(self.window / MOST));
            return;
        }
        // RFC 9438 5.8: the round trip says nothing about a window that is not used.
        let used = acked.saturating_add(1).saturating_mul(2 * ONE) >= self.window;
        if used && self.window >= self.ssthresh {
            let more = (self.window / GROWTH_PART).clamp(LEAST_GROWTH, GROWTH);
            self.window = (self.window + more).min(MAX_WINDOW * ONE);
            self.ssthresh = self.window;
        }
    }
}

#[cfg(test)]
mod tests;
