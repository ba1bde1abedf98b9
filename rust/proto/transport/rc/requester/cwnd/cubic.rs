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
use super::{Ack, CongestionControl, Loss, MAX_CWND};

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
/// They are spread over so many 256ths of a round trip, so that the queue that they make drains.
const PACED_OVER: u64 = 320;

/// Smallest window after a loss: RFC 9438 4.6 has two packets, to be sent at once.
const MIN_WINDOW: u32 = ONE / 16;
/// The window after a timeout at most, as in RFC 5681 3.1.
const LOSS_WINDOW: u32 = ONE;

/// Initial and largest window of READ responses, in PSNs. A hundred connections that begin together
/// must not overflow a queue by their first READs, as in RFC 6928 2.
const INITIAL_READ_WINDOW: u32 = 16;
const MAX_READ_WINDOW: u32 = 32 * READ_CHUNK;

/// Smallest window of READ responses, after a loss and after a timeout: two chunks of four packets.
/// A READ request for each response or two costs the responder as much as the loss.
const MIN_READ_WINDOW: u32 = 8 * ONE;

/// Before the first loss a window doubles in each round trip up to this, as NICs queue some
/// hundreds of packets. Above it grows by a packet for so many, as in RFC 3742 2.
const MAX_SSTHRESH: u32 = 4 * READ_CHUNK * ONE;
const STARTUP_DIVISOR: u32 = 16;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    window: u32,
    /// Slow start threshold: below it the window doubles in each round trip.
    ssthresh: u32,
    /// Largest window, and the smallest after a loss and after a timeout.
    max: u32,
    min: u32,
    loss_window: u32,
    /// W_max, the plateau; 0 before the first loss.
    w_max: u32,
    /// cwnd_prior, the window before the last reduction.
    prior: u32,
    /// W_est, the window that Reno would have.
    w_est: u32,
    /// K, the time from the reduction to the plateau, in 1/1024 s.
    k: i64,
    /// How long congestion avoidance lasts, without the round trips in which the window was not
    /// used (RFC 9438 5.8); the end of the last round trip. In nanoseconds.
    elapsed: u64,
    last: u64,
    /// Packets acknowledged in this round trip.
    acked: u32,
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
    const fn new(window: u32, max: u32, min: u32, loss_window: u32) -> Self {
        Cubic {
            window: window * ONE,
            ssthresh: max * ONE,
            max: max * ONE,
            min,
            loss_window,
            w_max: 0,
            prior: 0,
            w_est: 0,
            k: 0,
            elapsed: 0,
            last: 0,
            acked: 0,
        }
    }

    /// The part of the window that was in flight. A loss says nothing about the rest.
    fn flight(&self, loss: Loss) -> u32 {
        let in_flight = loss.in_flight.clamp(1, MAX_READ_WINDOW);
        self.window.min(in_flight.saturating_mul(ONE))
    }

    /// Congestion avoidance begins at the time `now` (RFC 9438 4.2).
    fn begin(&mut self, now: u64) {
        self.w_est = self.window;
        self.elapsed = 0;
        self.last = now;
        self.acked = 0;
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
        window.clamp(0, self.max.into()) as u32
    }

    /// A round trip of congestion avoidance ends.
    fn end_round(&mut self, now: u64, rtt: u64) {
        let acked = core::mem::take(&mut self.acked);
        let round = now.saturating_sub(core::mem::replace(&mut self.last, now));
        // RFC 9438 5.8: the round trip says nothing about a window that is not used.
        if acked.saturating_mul(2 * ONE) < self.window {
            return;
        }
        self.elapsed = self.elapsed.saturating_add(round);
        // RFC 9438 4.3: W_est.
        let alpha = if self.w_est < self.prior { ALPHA } else { ONE };
        let alpha = (alpha * self.w_est.min(SMALL) / SMALL).max(1);
        self.w_est = self.w_est.saturating_add(alpha).min(self.max);
        self.window = if self.w_cubic(self.elapsed) < self.w_est {
            self.window.max(self.w_est)
        } else {
            // RFC 9438 4.2: the target of the next round trip.
            let target = self.w_cubic(self.elapsed.saturating_add(rtt));
            let most = self.window.saturating_add(self.window / 2);
            target.clamp(self.window, most.min(self.max).max(self.window))
        };
    }
}

impl CongestionControl for Cubic {
    const REQUESTS: Self = Self::new(MAX_CWND as u32, MAX_CWND as u32, MIN_WINDOW, LOSS_WINDOW);
    const RESPONSES: Self = Self::new(
        INITIAL_READ_WINDOW,
        MAX_READ_WINDOW,
        MIN_READ_WINDOW,
        MIN_READ_WINDOW,
    );

    #[inline]
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

    #[inline]
    fn on_ack(&mut self, ack: Ack) {
        if self.window < self.max {
            self.grow(ack);
        }
    }

    fn on_loss(&mut self, loss: Loss) {
        self.window = self.flight(loss);
        // RFC 9438 4.7: fast convergence.
        self.w_max = if self.window < self.w_max {
            (u64::from(self.window) * (256 + BETA) / 512) as u32
        } else {
            self.window
        };
        self.prior = self.window;
        // RFC 9438 4.6.
        self.window = reduced(self.window).max(self.min);
        self.ssthresh = self.window;
        self.begin(loss.now.0);
    }

    fn on_timeout(&mut self, loss: Loss) {
        // RFC 5681 3.1: a second timeout in a row leaves the threshold as it is.
        if self.window > self.loss_window {
            self.prior = self.window;
            self.ssthresh = reduced(self.flight(loss)).max(self.min);
        }
        self.window = self.window.min(self.loss_window);
        // RFC 9438 4.8: the plateau is where slow start ends.
        self.w_max = self.ssthresh;
        self.begin(loss.now.0);
        self.k = 0;
    }
}

impl Cubic {
    /// The window is not the largest, and may grow.
    fn grow(&mut self, ack: Ack) {
        let packets = ack.packets.min(MAX_READ_WINDOW);
        if self.w_max == 0 {
            let more = match self.window < MAX_SSTHRESH {
                true => packets * ONE,
                false => packets.div_ceil(STARTUP_DIVISOR) * ONE,
            };
            self.window = self.window.saturating_add(more).min(self.max);
        } else if self.window < self.ssthresh {
            // RFC 5681 3.1, by the packets that are acknowledged (RFC 3465 2.2). An acknowledgement
            // of more than the window is of packets that were sent before a timeout.
            let more = (packets * ONE).min(self.window);
            self.window = self.window.saturating_add(more).min(self.ssthresh);
            if self.window == self.ssthresh {
                self.begin(ack.now.0);
            }
        } else {
            self.acked = self.acked.saturating_add(packets);
            if ack.ends_round {
                self.end_round(ack.now.0, ack.rtt);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::common::Instant;
    use super::*;

    const MS: u64 = 1_000_000;

    fn loss(now: u64) -> Loss {
        Loss {
            now: Instant(now),
            in_flight: u32::MAX,
        }
    }

    /// A whole window is acknowledged, as the end of a round trip.
    fn round(cubic: &mut Cubic, now: u64, rtt: u64) {
        cubic.on_ack(Ack {
            packets: cubic.window(),
            now: Instant(now),
            rtt,
            ends_round: true,
        });
    }

    /// RFC 9438 4.6: a loss leaves beta_cubic of the window; here one packet at least.
    #[test]
    fn a_loss_leaves_seven_tenths() {
        let mut cubic = Cubic::REQUESTS;
        let windows: Vec<_> = (0..14)
            .map(|_| {
                cubic.on_loss(loss(0));
                cubic.window()
            })
            .collect();
        assert_eq!(windows, [89, 62, 43, 30, 21, 14, 10, 7, 5, 3, 2, 1, 1, 1]);
    }

    /// RFC 9438 4.2: the window grows back to W_max in K seconds, stays there for a
    /// while, and then grows faster and faster.
    #[test]
    fn the_plateau_is_at_the_window_of_the_loss() {
        let mut cubic = Cubic::RESPONSES;
        cubic.window = 1000 * ONE;
        cubic.on_loss(loss(0));
        assert_eq!(cubic.window(), 699);
        // K is the cube root of 301 / 0.4, 9.1 s.
        assert!((9 * 1024..10 * 1024).contains(&cubic.k), "{}", cubic.k);
        let rtt = 100 * MS;
        let mut at = Vec::new();
        for n in 1..=150u64 {
            let before = cubic.window();
            round(&mut cubic, n * rtt, rtt);
            at.push(cubic.window());
            assert!(cubic.window() >= before);
        }
        assert!((855..=870).contains(&at[19]), "{} after 2 s", at[19]);
        assert!((994..=1000).contains(&at[74]), "{} after 7.5 s", at[74]);
        assert!((999..=1001).contains(&at[91]), "{} after 9.2 s", at[91]);
        assert!((1070..=1100).contains(&at[149]), "{} after 15 s", at[149]);
    }

    /// RFC 9438 4.3: where round trips are short the window grows as Reno's does, by 0.53 packets
    /// in each, and by one once it has reached the window of the loss.
    #[test]
    fn short_round_trips_are_reno_friendly() {
        let mut cubic = Cubic::RESPONSES;
        cubic.window = 200 * ONE;
        cubic.on_loss(loss(0));
        let begin = cubic.window;
        let mut now = 0;
        for n in 1..=100 {
            now += MS / 10;
            round(&mut cubic, now, MS / 10);
            assert_eq!(cubic.window, begin + n * ALPHA);
        }
        while cubic.window < cubic.prior {
            now += MS / 10;
            round(&mut cubic, now, MS / 10);
        }
        let reached = cubic.window;
        for _ in 0..10 {
            now += MS / 10;
            round(&mut cubic, now, MS / 10);
        }
        assert_eq!(cubic.window, reached + 10 * ONE);
    }

    /// RFC 9438 5.8: a window that is not used does not grow.
    #[test]
    fn the_window_grows_once_in_a_round_trip_and_if_it_is_used() {
        let mut cubic = Cubic::REQUESTS;
        cubic.on_loss(loss(0));
        let begin = cubic.window;
        let mut ack = Ack {
            packets: 1,
            now: Instant(MS),
            rtt: MS,
            ends_round: false,
        };
        for _ in 0..60 {
            cubic.on_ack(ack);
        }
        assert_eq!(cubic.window, begin);
        ack.ends_round = true;
        cubic.on_ack(ack);
        assert_eq!(cubic.window, begin + ALPHA);
        cubic.on_ack(ack);
        assert_eq!(cubic.window, begin + ALPHA);
    }

    /// RFC 5681 3.1, RFC 3465 2.2, RFC 9438 4.8: a timeout leaves one packet, and slow start goes
    /// to beta_cubic of the window.
    #[test]
    fn a_timeout_starts_slowly() {
        let mut cubic = Cubic::REQUESTS;
        cubic.on_timeout(loss(0));
        cubic.on_timeout(loss(MS));
        let mut windows = vec![cubic.window()];
        for n in 2..9 {
            round(&mut cubic, n * MS, MS);
            windows.push(cubic.window());
        }
        assert_eq!(windows, [1, 2, 4, 8, 16, 32, 64, 89]);
        let begin = cubic.window;
        round(&mut cubic, 10 * MS, MS);
        assert_eq!(cubic.window, begin + ALPHA);
    }

    /// RFC 9438 4.7: a loss below the last plateau lowers the plateau.
    #[test]
    fn fast_convergence() {
        let mut cubic = Cubic::REQUESTS;
        cubic.on_loss(loss(0));
        assert_eq!(cubic.w_max, 128 * ONE);
        let window = cubic.window;
        cubic.on_loss(loss(0));
        let expected = window * 85 / 100;
        assert!(cubic.w_max.abs_diff(expected) < ONE / 2);
    }

    #[test]
    fn cube_roots() {
        for root in [0u64, 1, 2, 9, 1000, 9216, 65_535] {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), root.max(u64::from(root == 0)));
        }
    }
}
