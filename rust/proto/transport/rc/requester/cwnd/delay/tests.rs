// SPDX-License-Identifier: GPL-2.0

//! Control by delay, by itself.

use super::super::super::common::Instant;
use super::*;

/// Nanoseconds.
const US: u64 = 1000;
const BASE: u64 = 100 * US;

/// A controller, and the time.
struct Path {
    control: DelayBased,
    now: u64,
}

impl Path {
    fn new(control: DelayBased) -> Self {
        Path {
            control,
            now: 77_000_000 * US,
        }
    }

    /// In congestion avoidance, with this window in packets, on a path whose base was seen.
    fn avoiding(window: u32) -> Self {
        let mut path = Self::new(DelayBased::REQUESTS);
        path.round(BASE);
        path.control.window = window * ONE;
        path.control.ssthresh = path.control.window;
        path
    }

    /// A round trip of so many nanoseconds, in which all of the window was used.
    fn round(&mut self, nanos: u64) -> u32 {
        self.now += nanos;
        let packets = self.control.window();
        self.ack(packets, packets);
        self.measure(nanos)
    }

    fn measure(&mut self, nanos: u64) -> u32 {
        let now = Instant(self.now);
        self.control.on_delay(Delay { now, nanos });
        self.control.window
    }

    fn ack(&mut self, packets: u32, in_flight: u32) {
        self.control.on_ack(Ack {
            packets,
            now: Instant(self.now),
            rtt: BASE,
            min_rtt: BASE,
            in_flight,
            ends_round: true,
        });
    }

    fn loss(&self) -> Loss {
        let in_flight = self.control.window();
        Loss {
            now: Instant(self.now),
            in_flight,
        }
    }
}

#[test]
fn slow_start_doubles_until_a_round_trip_is_too_long() {
    let mut path = Path::new(DelayBased::REQUESTS);
    assert_eq!(path.control.window(), 8);
    for window in [16, 32, 64] {
        assert_eq!(path.round(BASE), window * ONE);
    }
    let at_end = path.control.window;
    // The acknowledgements double it, and the delay halves that at most.
    let window = path.round(3 * BASE);
    assert!((at_end..2 * at_end).contains(&window), "{window}");
    assert_eq!(path.control.ssthresh(), window / ONE);
    assert!(path.round(BASE) <= window + ONE, "slow start is over");
}

#[test]
fn it_grows_by_a_packet_or_less_in_a_round_trip() {
    for (window, more) in [(1, ONE / 16), (4, ONE / 4), (16, ONE), (400, ONE)] {
        let mut path = Path::avoiding(window);
        assert_eq!(path.round(BASE), window * ONE + more, "{window}");
    }
}

#[test]
fn it_does_not_grow_unless_it_is_used() {
    let mut path = Path::avoiding(40);
    path.ack(10, 5);
    assert_eq!(path.measure(BASE), 40 * ONE);
    let mut path = Path::new(DelayBased::REQUESTS);
    path.ack(1, 1);
    assert_eq!(path.control.window(), 8);
}

#[test]
fn it_shrinks_by_what_is_too_long_and_by_half_at_most() {
    let mut path = Path::avoiding(100);
    // Without noise or scaling the target is 9/8 of the base.
    assert_eq!(path.control.target(), BASE + BASE / 8);
    assert_eq!(path.round(BASE + BASE / 8), 101 * ONE, "not too long yet");
    let mut path = Path::avoiding(100);
    let window = path.round(2 * BASE);
    // The deviation counts what has just come: a quarter of the base, twice.
    let over = 2 * BASE - (BASE + BASE / 2);
    let cut = u64::from(100 * ONE) * over / (2 * BASE) * 4 / 5;
    assert_eq!(u64::from(window), u64::from(100 * ONE) - cut);
    let mut path = Path::avoiding(100);
    path.control.patience = UNSEEN;
    assert_eq!(path.round(50 * BASE), 50 * ONE);
}

#[test]
fn a_smaller_window_has_a_longer_target() {
    let targets = [100, 25, 6, 1].map(|window| Path::avoiding(window).control.target());
    assert!(targets.is_sorted(), "{targets:?}");
    let mut path = Path::avoiding(1);
    path.control.window = MIN_WINDOW;
    let most = BASE + BASE / 8 + BASE / 2;
    assert!(path.control.target() <= most);
    assert!(path.control.target() > targets[3]);
}

#[test]
fn noise_makes_the_target_longer() {
    let mut path = Path::avoiding(100);
    for n in 0..40 {
        path.control.window = 100 * ONE;
        path.round(if n % 2 == 0 { BASE } else { BASE + BASE / 2 });
    }
    let target = path.control.target();
    assert!(target > BASE + BASE / 4, "{target}");
    assert!(target <= BASE + BASE * 3 / 4, "{target}");
}

#[test]
fn a_queue_that_was_taken_for_the_path_is_drained() {
    let mut path = Path::avoiding(100);
    path.control.base = 4 * BASE;
    path.control.patience = UNSEEN;
    let begin = path.now;
    let mut before = path.control.window;
    // The queue of the connection itself: 4/100 of the base for each packet.
    let nanos = |window: u32| BASE / 25 * u64::from(window / ONE) + BASE / 4;
    while path.control.drained.is_none() {
        assert!(path.now - begin < 70 * 4 * BASE, "it is never drained");
        before = path.control.window;
        path.round(nanos(before));
    }
    assert!(path.now - begin > 64 * 4 * BASE);
    assert_eq!(path.control.window, before / 4);
    path.round(nanos(path.control.window));
    assert_eq!(path.control.window, before, "for one round trip");
    assert!(path.control.base < 2 * BASE, "that shows the base");
    assert_eq!(path.control.patience, SOON, "and may not show all of it");
}

#[test]
fn the_base_is_of_the_last_seconds() {
    let mut path = Path::avoiding(100);
    for _ in 0..2 {
        path.now += BASE_NS;
        path.round(3 * BASE);
    }
    assert_eq!(path.control.base, 3 * BASE);
}

#[test]
fn a_loss_halves_and_a_timeout_leaves_the_smallest_window() {
    let mut path = Path::avoiding(100);
    path.control.on_loss(path.loss());
    assert_eq!(path.control.window, 50 * ONE);
    path.control.on_timeout(path.loss());
    assert_eq!(path.control.window, MIN_WINDOW);
    assert_eq!(path.control.window(), 1);
    assert_eq!(path.control.ssthresh(), 25);
    assert_eq!(path.control.interval(BASE), Some(16 * BASE), "paced");
    path.ack(1, 1);
    assert_eq!(path.control.window, 2 * MIN_WINDOW, "slow start");
    for _ in 0..100 {
        path.control.on_loss(path.loss());
    }
    assert_eq!(path.control.window, MIN_WINDOW);
    let mut reads = DelayBased::RESPONSES;
    reads.on_timeout(path.loss());
    assert_eq!(reads.window(), 2);
}

#[test]
fn no_time_of_a_round_trip_is_an_overflow() {
    for nanos in [0, 1, LONGEST, u64::MAX] {
        let mut path = Path::avoiding(16_000);
        for other in [nanos, 1, u64::MAX, nanos] {
            path.measure(other);
            path.now = path.now.saturating_add(LONGEST);
        }
        path.now = u64::MAX;
        path.measure(nanos);
        assert!((1..=MAX_WINDOW).contains(&path.control.window()));
    }
}
