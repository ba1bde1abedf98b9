// SPDX-License-Identifier: GPL-2.0

//! CUBIC, as in RFC 9438 4, with slow start and timeouts as in RFC 5681 3.1.
//!
//! Windows are kept in 1/256 packet. What the RFC adds with each acknowledgement of a round trip is
//! added once, at its end.
//!
//! Where many connections share a queue that holds a packet or two of each, windows of TCP's rules
//! lose one packet in eight. A small window of request packets is therefore paced, may be a part of
//! a packet, and grows in proportion to itself.

use super::super::read_chunk::READ_CHUNK;
use super::{Ack, CongestionControl, Ignored, Loss, MAX_WINDOW};

/// A packet.
const ONE: u32 = 256;

/// RFC 9438 4.6: beta_cubic is 0.7. As parts of 256.
const BETA: u64 = 179;

/// RFC 9438 4.3: alpha_cubic is 3 (1 - beta) / (1 + beta), 0.53 packets in each round trip.
const ALPHA: u32 = 136;

/// C is 0.4 packets in s^3, as in RFC 9438 5.1. W_cubic changes by C t^3, and t is in 1/1024 s:
/// this is 1/C in the units of time and window.
const INVERSE_C: u64 = (1 << 30) * 10 / 4 / ONE as u64;

/// Nanoseconds of 1/1024 s.
const TICK_NS: u64 = 976_562;

/// The cube of this many ticks, a minute, is still small; no window takes as long to grow back.
const MAX_TICKS: i64 = 1 << 16;

/// Below this window request packets are paced, and W_est grows in proportion to the window: what
/// is little for a connection is much for a hundred.
const SMALL: u32 = 4 * ONE;
/// From this window up to the other W_est grows by so much: of a hundred connections that share a
/// queue of as many packets all have windows below it, and must not grow beyond it together.
const CROWDED: u32 = 2 * ONE;
const CAUTIOUS: u32 = ONE / 32;
/// They are spread over so many 256ths of a round trip, so that the queue that they make drains.
const PACED_OVER: u64 = 320;

/// Smallest window after a loss: RFC 9438 4.6 has two packets, to be sent at once.
const MIN_WINDOW: u32 = ONE / 16;
/// The window after a timeout at most, as in RFC 5681 3.1.
const LOSS_WINDOW: u32 = ONE;

/// Initial windows: a hundred connections that begin together must not overflow a queue by their
/// first packets, as in RFC 6928 2. A READ request brings several response packets.
const INITIAL_WINDOW: u32 = 32;
const INITIAL_READ_WINDOW: u32 = 16;

/// Losses are rare if so many packets are acknowledged between two of them on average (RFC 5348 5.4
/// has such an average): then a run of them leaves this window of READ responses, which Reno's
/// would exceed (W = sqrt(1.5 / p)). A READ request for each response or two costs the responder as
/// much as the loss.
const RARE: u32 = 48;
const RARE_READ_WINDOW: u32 = 8 * ONE;

/// Up to these windows a connection may grow whatever its round trip times are: NICs queue some
/// hundreds of packets, and some of them are in the hosts.
const SHORT_WINDOW: u32 = 128;
const SHORT_READ_WINDOW: u32 = 4 * READ_CHUNK;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cubic {
    window: u32,
    /// Slow start threshold: below it the window doubles in each round trip.
    ssthresh: u32,
    /// Largest window of a short path, and of this one.
    short: u32,
    limit: u32,
    /// What losses leave at least, if they are rare.
    rare: u32,
    /// W_max, the plateau; 0 before the first loss.
    w_max: u32,
    /// W_est, the window that Reno would have.
    w_est: u32,
    /// K, the time from the reduction to the plateau, in 1/1024 s.
    k: i64,
    /// How long congestion avoidance lasts, without the round trips in which the window was not
    /// used (RFC 9438 5.8); the end of the last round trip. In nanoseconds.
    elapsed: u64,
    last: u64,
    /// Half of the window or more was in flight in this round trip.
    used: bool,
    /// Packets acknowledged since the last loss, and between losses on average; 0 before the first.
    since: u32,
    apart: u32,
}

/// The largest integer whose cube is no larger, for values less than 2^60.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..20).rev() {
        let next = root | (1 << bit);
        if next * next * next <= value {
            root = next;
        }
    }
    root
}

/// beta_cubic times the window.
fn reduced(window: u32) -> u32 {
    (u64::from(window) * BETA / 256) as u32
}

impl Cubic {
    const fn new(window: u32, short: u32, rare: u32) -> Self {
        Cubic {
            window: window * ONE,
            ssthresh: MAX_WINDOW * ONE,
            short: short * ONE,
            limit: short * ONE,
            rare,
            w_max: 0,
            w_est: 0,
            k: 0,
            elapsed: 0,
            last: 0,
            used: false,
            since: 0,
            apart: 0,
        }
    }

    /// The part of the window that was in flight. A loss says nothing about the rest.
    fn flight(&self, loss: Loss) -> u32 {
        let in_flight = loss.in_flight.clamp(1, MAX_WINDOW);
        self.window.min(in_flight.saturating_mul(ONE))
    }

    /// What this loss leaves of the window at least.
    fn least(&mut self) -> u32 {
        let since = core::mem::take(&mut self.since);
        self.apart = match self.apart {
            0 => since,
            before => (before - before / 4).saturating_add(since / 4),
        };
        match self.apart >= RARE {
            true => self.rare.min(self.window).max(MIN_WINDOW),
            false => MIN_WINDOW,
        }
    }

    /// Congestion avoidance begins at the time `now` (RFC 9438 4.2).
    fn begin(&mut self, now: u64) {
        self.w_est = self.window;
        self.elapsed = 0;
        self.last = now;
        self.used = false;
        let below = u64::from(self.w_max.saturating_sub(self.window));
        // RFC 9438 4.2: K.
        self.k = cube_root(below.saturating_mul(INVERSE_C)) as i64;
    }

    /// W_cubic at so many nanoseconds after the reduction (RFC 9438 4.2).
    fn w_cubic(&self, nanos: u64) -> u32 {
        let ticks = i64::try_from(nanos / TICK_NS).unwrap_or(MAX_TICKS);
        let t = ticks.saturating_sub(self.k).clamp(-MAX_TICKS, MAX_TICKS);
        let change = t * t * t / INVERSE_C as i64;
        let window = i64::from(self.w_max).saturating_add(change);
        window.clamp(0, self.limit.into()) as u32
    }

    /// The growth of W_est in a round trip (RFC 9438 4.3). The RFC has a whole packet once W_est
    /// has reached the window of the loss: a queue that such connections share overflows more then.
    fn alpha(&self) -> u32 {
        match self.w_est {
            SMALL.. => ALPHA,
            CROWDED..SMALL => CAUTIOUS,
            small => (ALPHA * small / SMALL).max(1),
        }
    }

    /// A round trip of congestion avoidance ends.
    fn end_round(&mut self, now: u64, rtt: u64) {
        let used = core::mem::take(&mut self.used);
        let round = now.saturating_sub(core::mem::replace(&mut self.last, now));
        // RFC 9438 5.8: the round trip says nothing about a window that is not used.
        if !used {
            return;
        }
        self.elapsed = self.elapsed.saturating_add(round);
        self.w_est = self.w_est.saturating_add(self.alpha()).min(self.limit);
        self.window = if self.w_cubic(self.elapsed) < self.w_est {
            self.window.max(self.w_est)
        } else {
            // RFC 9438 4.2: the target of the next round trip.
            let target = self.w_cubic(self.elapsed.saturating_add(rtt));
            let most = self.window.saturating_add(self.window / 2);
            target.clamp(self.window, most.min(self.limit).max(self.window))
        };
    }
}

impl CongestionControl for Cubic {
    const REQUESTS: Self = Self::new(INITIAL_WINDOW, SHORT_WINDOW, 0);
    const RESPONSES: Self = Self::new(INITIAL_READ_WINDOW, SHORT_READ_WINDOW, RARE_READ_WINDOW);

    fn window(&self) -> u32 {
        (self.window / ONE).max(1)
    }

    fn interval(&self, rtt: u64) -> Option<u64> {
        let packet = rtt.saturating_mul(PACED_OVER) / u64::from(self.window.max(1));
        (self.window < SMALL).then_some(packet)
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh / ONE
    }

    fn restarts(&self) -> bool {
        self.window > self.short
    }

    fn ignored(&self) -> Ignored {
        match self.window < self.limit {
            // Before the first loss.
            true => Ignored {
                below: 0,
                others: self.w_max == 0,
            },
            false => Ignored {
                below: self.window.div_ceil(2 * ONE),
                others: false,
            },
        }
    }

    fn on_ack(&mut self, ack: Ack) {
        if self.window < self.limit {
            self.grow(ack);
        } else if ack.ends_round && ack.in_flight.saturating_mul(2 * ONE) >= self.window {
            self.raise_limit(ack);
        }
    }

    fn on_loss(&mut self, loss: Loss) {
        let least = self.least();
        self.window = self.flight(loss);
        // RFC 9438 4.7: fast convergence.
        self.w_max = if self.window < self.w_max {
            (u64::from(self.window) * (256 + BETA) / 512) as u32
        } else {
            self.window
        };
        // RFC 9438 4.6.
        self.window = reduced(self.window).max(least);
        self.ssthresh = self.window;
        self.begin(loss.now.0);
    }

    fn on_timeout(&mut self, loss: Loss) {
        // RFC 5681 3.1: a second timeout in a row leaves the threshold as it is.
        if self.window > LOSS_WINDOW {
            self.ssthresh = reduced(self.flight(loss)).max(MIN_WINDOW);
        }
        self.window = self.window.min(LOSS_WINDOW);
        // RFC 9438 4.8: the plateau is where slow start ends.
        self.w_max = self.ssthresh;
        self.begin(loss.now.0);
        self.k = 0;
    }

    /// RFC 5681 4.1: a path that holds more than a short one is not filled at once. Slow start goes
    /// to the window of before.
    fn on_restart(&mut self) {
        if self.restarts() {
            self.ssthresh = self.window;
            self.window = INITIAL_WINDOW * ONE;
        }
    }
}

impl Cubic {
    /// The window is the largest and was used, and a round trip ends. If the packets have not
    /// waited in a queue for long, the path holds more of them. Where they have not waited at all
    /// it may grow by half; else it grows slowly, as in RFC 9406 4.3.
    #[cold]
    fn raise_limit(&mut self, ack: Ack) {
        let queued = ack.rtt.saturating_sub(ack.min_rtt);
        if ack.rtt == 0 || queued > ack.min_rtt / 4 {
            return;
        }
        let more = match queued <= ack.min_rtt / 8 {
            true => self.limit / 2,
            false => self.limit / 16,
        };
        self.limit = self.limit.saturating_add(more).min(MAX_WINDOW * ONE);
    }

    /// The window is not the largest, and may grow.
    fn grow(&mut self, ack: Ack) {
        let packets = ack.packets.min(MAX_WINDOW);
        self.since = self.since.saturating_add(packets);
        if self.w_max == 0 {
            self.window = self.window.saturating_add(packets * ONE).min(self.limit);
        } else if self.window < self.ssthresh {
            // RFC 5681 3.1, by the packets that are acknowledged (RFC 3465 2.2). An acknowledgement
            // of more than the window is of packets that were sent before a timeout.
            let more = (packets * ONE).min(self.window);
            self.window = self.window.saturating_add(more).min(self.ssthresh);
            if self.window == self.ssthresh {
                self.begin(ack.now.0);
            }
        } else {
            let in_flight = packets.saturating_add(ack.in_flight.min(MAX_WINDOW));
            self.used |= in_flight * 2 * ONE >= self.window;
            if ack.ends_round {
                self.end_round(ack.now.0, ack.rtt);
            }
        }
    }
}

#[cfg(test)]
mod tests;
