// SPDX-License-Identifier: GPL-2.0

//! CUBIC's windows in round trips, losses, timeouts and pauses.

use super::super::super::common::Instant;
use super::*;
use proptest::prelude::*;

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
        min_rtt: rtt,
        in_flight: cubic.window(),
        ends_round: true,
    });
}

/// A connection that has filled a short path.
fn grown() -> Cubic {
    let mut cubic = Cubic::REQUESTS;
    cubic.window = SHORT_WINDOW * ONE;
    cubic
}

/// RFC 6928 2, RFC 5681 3.1: what is acknowledged is added; a short path has its limit.
#[test]
fn slow_start() {
    let mut cubic = Cubic::REQUESTS;
    let mut windows = vec![cubic.window()];
    for n in 1..5 {
        cubic.on_ack(Ack {
            packets: cubic.window(),
            now: Instant(n * MS),
            rtt: n * MS,
            min_rtt: MS,
            in_flight: cubic.window(),
            ends_round: true,
        });
        windows.push(cubic.window());
    }
    assert_eq!(windows, [32, 64, 128, 128, 128]);
}

/// RFC 5681 4.1: after a pause slow start begins anew, on a long path.
#[test]
fn a_pause() {
    let mut cubic = grown();
    cubic.on_restart();
    assert_eq!(cubic.window(), 128);
    (cubic.window, cubic.limit) = (1000 * ONE, 1000 * ONE);
    cubic.on_loss(loss(0));
    cubic.on_restart();
    let mut windows = vec![cubic.window()];
    for n in 1..7 {
        round(&mut cubic, n * MS, MS);
        windows.push(cubic.window());
    }
    assert_eq!(windows, [32, 64, 128, 256, 512, 699, 699]);
}

/// The limit is raised in a round trip whose window was used, and by half, a sixteenth or not
/// at all, as the packets waited in a queue.
#[test]
fn a_path_that_holds_more_raises_the_limit() {
    for (rtt, in_flight, limit) in [
        (MS, 128, 192),
        (MS + MS / 8, 128, 192),
        (MS + MS / 8 + 8, 128, 136),
        (MS + MS / 4, 64, 136),
        (MS + MS / 4 + 8, 128, 128),
        (MS, 63, 128),
        (0, 128, 128),
    ] {
        let mut cubic = grown();
        let mut ack = Ack {
            packets: 64,
            now: Instant(MS),
            rtt,
            min_rtt: MS,
            in_flight,
            ends_round: false,
        };
        cubic.on_ack(ack);
        assert_eq!(cubic.limit, SHORT_WINDOW * ONE);
        ack.ends_round = true;
        cubic.on_ack(ack);
        assert_eq!(cubic.limit, limit * ONE, "{rtt} {in_flight}");
        assert_eq!(cubic.window(), 128);
        cubic.on_ack(ack);
        assert_eq!(cubic.window(), limit.min(192), "{rtt} {in_flight}");
    }
    let mut cubic = grown();
    for n in 0..40 {
        round(&mut cubic, n * MS, MS);
    }
    assert_eq!(cubic.window(), MAX_WINDOW);
}

/// RFC 9438 4.6: a loss leaves beta_cubic of the window; here one packet at least.
#[test]
fn a_loss_leaves_seven_tenths() {
    let mut cubic = grown();
    let windows: Vec<_> = (0..14)
        .map(|_| {
            cubic.on_loss(loss(0));
            cubic.window()
        })
        .collect();
    assert_eq!(windows, [89, 62, 43, 30, 21, 14, 10, 7, 5, 3, 2, 1, 1, 1]);
}

/// Where few packets are lost, a run of losses leaves 8 packets of READ responses: a window of Reno
/// would be larger on average.
#[test]
fn rare_losses_leave_eight_packets() {
    for (apart, least) in [(60, 8), (15, 0)] {
        let mut cubic = Cubic::RESPONSES;
        for n in 0..20 {
            let acked = apart + 20 * (n % 2);
            cubic.on_ack(Ack {
                packets: acked,
                now: Instant(n.into()),
                rtt: MS,
                min_rtt: MS,
                in_flight: 0,
                ends_round: false,
            });
            cubic.on_loss(loss(0));
        }
        assert_eq!(cubic.window / ONE, least, "{apart}");
    }
}

/// RFC 9438 4.2: the window grows back to W_max in K seconds, stays there for a
/// while, and then grows faster and faster.
#[test]
fn the_plateau_is_at_the_window_of_the_loss() {
    let mut cubic = Cubic::RESPONSES;
    (cubic.window, cubic.limit) = (1000 * ONE, MAX_WINDOW * ONE);
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
}

/// A window of which each round trip acknowledges all but one packet is used: none of them stays
/// where it is, whatever its size.
#[test]
fn small_windows_grow() {
    for begin in 1..40 {
        let mut cubic = grown();
        cubic.on_loss(loss(0));
        cubic.window = begin * ONE / 4;
        cubic.w_est = cubic.window;
        cubic.w_max = cubic.window;
        let (mut now, mut least) = (0, cubic.window);
        for _ in 0..40 {
            now += MS / 10;
            cubic.on_ack(Ack {
                packets: cubic.window().saturating_sub(1).max(1),
                now: Instant(now),
                rtt: MS / 10,
                min_rtt: MS / 10,
                in_flight: 0,
                ends_round: true,
            });
            assert!(cubic.window > least, "{begin} quarters of a packet");
            least = cubic.window;
        }
    }
}

/// RFC 9438 5.8: a window that is not used does not grow.
#[test]
fn the_window_grows_once_in_a_round_trip_and_if_it_is_used() {
    let mut cubic = grown();
    cubic.on_loss(loss(0));
    let begin = cubic.window;
    let mut ack = Ack {
        packets: 1,
        now: Instant(MS),
        rtt: MS,
        min_rtt: MS,
        in_flight: 0,
        ends_round: false,
    };
    for in_flight in [45, 44] {
        for left in (20..in_flight).rev() {
            ack.in_flight = left;
            cubic.on_ack(ack);
        }
        ack.ends_round = true;
        cubic.on_ack(ack);
        assert_eq!(cubic.window, begin + ALPHA, "{in_flight}");
        ack.ends_round = false;
    }
    assert_eq!(begin / ONE, 89, "half of it is 44 packets and some");
}

/// RFC 5681 3.1, RFC 3465 2.2, RFC 9438 4.8: a timeout leaves one packet, and slow start goes
/// to beta_cubic of the window.
#[test]
fn a_timeout_starts_slowly() {
    let mut cubic = grown();
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
    let mut cubic = grown();
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

/// An event, packets that are acknowledged, others in flight, and whether a round trip ends.
fn event() -> impl Strategy<Value = (u8, u32, u32, bool)> {
    let packets = prop_oneof![Just(0), 0..600u32];
    (0..5u8, packets, 0..600u32, any::<bool>())
}

proptest! {
    /// An acknowledgement that `ignored` describes changes nothing.
    #[test]
    fn ignored_acknowledgements(
        responses: bool,
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut cubic = if responses { Cubic::RESPONSES } else { Cubic::REQUESTS };
        for (n, (event, packets, in_flight, ends_round)) in (1u64..).zip(events) {
            let now = Instant(n * MS);
            let lost = Loss { now, in_flight };
            let ack = Ack { packets, now, rtt: MS, min_rtt: MS, in_flight, ends_round };
            match event {
                0 => cubic.on_loss(lost),
                1 => cubic.on_timeout(lost),
                2 => cubic.on_restart(),
                _ => {
                    let before = format!("{cubic:?}");
                    let has_effect = cubic.ignored().has_effect(packets, in_flight);
                    cubic.on_ack(ack);
                    let unchanged = before == format!("{cubic:?}");
                    prop_assert!(has_effect || unchanged);
                }
            }
        }
    }
}
