// SPDX-License-Identifier: GPL-2.0

//! The rate control of DCQCN: each rule, and traces of a reference that tools/vectors/make-dcqcn.py
//! computed from the published formulas.

use super::super::common::dcqcn::{Dcqcn, Param, Params};
use super::super::Instant;
use proptest::prelude::*;

/// The checked-in traces.
const TRACES: &str = include_str!("../../../../tools/vectors/dcqcn.txt");

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const MBIT: u64 = 1_000_000;
const GBIT: u64 = 1000 * MBIT;
/// A line of 10 Gb/s.
const LINE: u32 = 10_000;

fn new() -> Dcqcn {
    Dcqcn::new(Params::CONNECTX, LINE)
}

/// ConnectX's defaults without increase by bytes or time.
const STILL: Params = Params {
    rp_time_reset: u32::MAX,
    rp_byte_reset: 0,
    ..Params::CONNECTX
};

fn rate(flow: &mut Dcqcn, now: u64) -> u64 {
    flow.rate(Instant(now)).expect("the rate is limited")
}

/// Whether the values differ by no more than 1 %.
fn near(is: u64, want: f64) -> bool {
    (is as f64 - want).abs() <= want / 100.0
}

/// The names and values of mlx5's `cc_params` on a ConnectX, as NVIDIA's "DCQCN Parameters" lists
/// them.
#[test]
fn the_parameters_are_those_of_connectx() {
    let p = &Params::CONNECTX;
    assert_eq!((p.rp_clamp_tgt_rate, p.rp_clamp_tgt_rate_ati), (0, 1));
    assert_eq!((p.rp_dce_tcp_g, p.rp_dce_tcp_rtt), (1019, 1));
    assert_eq!((p.rp_initial_alpha_value, p.rp_gd), (1023, 11));
    assert_eq!((p.rp_min_dec_fac, p.rp_min_rate), (50, 1));
    assert_eq!((p.rp_max_rate, p.rp_rate_to_set_on_first_cnp), (0, 0));
    assert_eq!(p.rp_rate_reduce_monitor_period, 4);
    assert_eq!((p.rp_time_reset, p.rp_byte_reset), (300, 32_767));
    assert_eq!((p.rp_threshold, p.rp_ai_rate, p.rp_hai_rate), (1, 5, 50));
}

/// The parameter of that name.
fn of(name: &str) -> &'static Param {
    const ALL: &[Param] = &Param::ALL;
    let is = |param: &&Param| param.name.to_str() == Ok(name);
    ALL.iter().find(is).expect(name)
}

/// Each parameter has a field of its own, which takes its range and nothing beyond.
#[test]
fn a_value_out_of_range_is_refused_and_changes_nothing() {
    const U: u32 = u32::MAX;
    const MBPS: u32 = 1_000_000;
    let ranges = [
        ("rp_clamp_tgt_rate", 0, 1),
        ("rp_clamp_tgt_rate_ati", 0, 1),
        ("rp_time_reset", 1, 131_071),
        ("rp_byte_reset", 0, U),
        ("rp_threshold", 1, 31),
        ("rp_ai_rate", 1, MBPS),
        ("rp_max_rate", 0, MBPS),
        ("rp_hai_rate", 1, MBPS),
        ("rp_min_dec_fac", 0, 100),
        ("rp_min_rate", 1, MBPS),
        ("rp_rate_to_set_on_first_cnp", 0, MBPS),
        ("rp_dce_tcp_g", 0, 1023),
        ("rp_dce_tcp_rtt", 1, 131_071),
        ("rp_rate_reduce_monitor_period", 1, U),
        ("rp_initial_alpha_value", 1, 1023),
        ("rp_gd", 10, 11),
    ];
    assert_eq!(
        ranges.map(|(name, ..)| name.as_bytes()),
        Param::ALL.map(|p| p.name.to_bytes())
    );
    let mut params = Params::CONNECTX;
    for (name, least, most) in ranges {
        for good in [least, most] {
            let before = Param::ALL.map(|p| p.get(&params));
            assert!(of(name).set(&mut params, good), "{name} {good}");
            let after = Param::ALL.map(|p| p.get(&params));
            for ((is, was), p) in after.into_iter().zip(before).zip(&Param::ALL) {
                let own = p.name == of(name).name;
                assert_eq!(is, if own { good } else { was }, "{name}");
            }
        }
        for bad in [least.checked_sub(1), most.checked_add(1)]
            .into_iter()
            .flatten()
        {
            let before = params;
            assert!(!of(name).set(&mut params, bad), "{name} {bad}");
            assert_eq!(params, before);
        }
    }
}

/// A flow with one parameter changed, after its first CNP, at 1 ms.
fn notified(name: &str, value: u32) -> Dcqcn {
    let mut params = STILL;
    assert!(of(name).set(&mut params, value), "{name}");
    let mut flow = Dcqcn::new(params, LINE);
    flow.on_cnp(Instant(MS));
    flow
}

/// The first CNP sets the rate and the target, and cuts nothing; the second cuts.
#[test]
fn the_first_cnp_sets_the_rate_that_is_asked_for() {
    let mut flow = notified("rp_rate_to_set_on_first_cnp", 2000);
    assert_eq!((rate(&mut flow, MS), flow.target()), (2 * GBIT, 2 * GBIT));
    flow.on_cnp(Instant(MS + 3 * US));
    assert_eq!(rate(&mut flow, MS + 3 * US), 2 * GBIT);
    assert!(near(
        rate(&mut flow, MS + 4 * US),
        1e9 * (2.0 - 1003.0 / 1024.0)
    ));
    let mut line = notified("rp_rate_to_set_on_first_cnp", 20_000);
    assert_eq!(rate(&mut line, MS), 10 * GBIT);
}

/// The largest rate is what the first CNP cuts, and where the limit ends; not beyond the line's.
#[test]
fn the_largest_rate_ends_the_limit() {
    for (most, begin) in [(4000, 2e9), (20_000, 5e9), (0, 5e9)] {
        let mut params = Params::CONNECTX;
        assert!(of("rp_max_rate").set(&mut params, most));
        let mut flow = Dcqcn::new(params, LINE);
        assert_eq!(flow.rate(Instant(0)), None);
        flow.on_cnp(Instant(MS));
        assert!(near(rate(&mut flow, MS), begin), "{most}");
        let last = (0..100_000)
            .map_while(|n| flow.rate(Instant(MS + n * 300 * US)))
            .last();
        assert!(near(last.expect("a limit"), 2.0 * begin), "{most}");
    }
}

/// What one cut leaves, by each of the parameters that it depends on.
#[test]
fn a_cut_takes_what_the_parameters_say() {
    let left = |name, value| rate(&mut notified(name, value), MS);
    assert!(near(left("rp_min_dec_fac", 80), 8e9));
    assert_eq!(left("rp_min_dec_fac", 100), 10 * GBIT);
    assert!(near(left("rp_initial_alpha_value", 512), 7.5e9));
    assert!(near(left("rp_min_rate", 9000), 9e9));
    let mut whole = STILL;
    assert!(of("rp_gd").set(&mut whole, 10) && of("rp_min_dec_fac").set(&mut whole, 0));
    let mut flow = Dcqcn::new(whole, LINE);
    flow.on_cnp(Instant(MS));
    // Alpha is 1023/1024.
    assert!(near(rate(&mut flow, MS), 10e9 / 1024.0));
}

/// Alpha by its factor and its period, and cuts by theirs.
#[test]
fn the_periods_are_what_the_parameters_say() {
    let alpha = |name, value| {
        let mut flow = notified(name, value);
        flow.on_cnp(Instant(MS + 100 * US + 500));
        flow.alpha() as f64 / (1u64 << 31) as f64
    };
    let one = 1023.0 / 1024.0;
    // The first period has a CNP.
    let decayed = |g: f64, n| (one * g + 1.0 - g) * g.powi(n - 1);
    assert!((alpha("rp_dce_tcp_g", 1000) - decayed(1000.0 / 1024.0, 100)).abs() < 0.01);
    assert!((alpha("rp_dce_tcp_rtt", 10) - decayed(1019.0 / 1024.0, 10)).abs() < 0.01);
    let mut flow = notified("rp_rate_reduce_monitor_period", 50);
    flow.on_cnp(Instant(MS + US));
    assert!(near(rate(&mut flow, MS + 49 * US), 5e9));
    assert!(rate(&mut flow, MS + 50 * US) < 4 * GBIT);
}

/// Growth by each of its parameters.
#[test]
fn growth_is_what_the_parameters_say() {
    const CUT: u64 = 400 * US;
    let grown = |name, value, later, bytes: u32| {
        let mut params = Params::CONNECTX;
        assert!(of(name).set(&mut params, value));
        let mut flow = Dcqcn::new(params, 100_000);
        // Two cuts, with an increase between them: the target is no more the line's.
        flow.on_cnp(Instant(0));
        flow.on_cnp(Instant(CUT));
        let before = (rate(&mut flow, CUT), flow.target());
        flow.on_sent(Instant(CUT + US), bytes);
        let after = rate(&mut flow, CUT + later * US);
        (after > before.0, flow.target() - before.1)
    };
    assert!(!grown("rp_time_reset", 100, 99, 0).0);
    assert!(grown("rp_time_reset", 100, 100, 0).0);
    assert!(!grown("rp_byte_reset", 5000, 2, 4999).0);
    assert!(grown("rp_byte_reset", 5000, 2, 5000).0);
    assert_eq!(grown("rp_ai_rate", 70, 600, 0).1, 70 * MBIT);
    assert_eq!(grown("rp_threshold", 3, 900, 0).1, 0);
    assert_eq!(grown("rp_threshold", 3, 1200, 0).1, 5 * MBIT);
    // Twice by bytes, and then twice by time: both are beyond the threshold at the end.
    let both = grown("rp_hai_rate", 90, 600, 65_534).1;
    assert_eq!(both, (5 + 5 + 90) * MBIT);
}

#[test]
fn without_a_cnp_there_is_no_limit() {
    let mut flow = new();
    flow.on_sent(Instant(MS), u32::MAX);
    assert_eq!(flow.rate(Instant(MS)), None);
}

/// The first CNP finds alpha at 1023/1024, and halves the line's rate.
#[test]
fn the_first_cnp_halves_the_rate_of_the_line() {
    let mut flow = new();
    flow.on_cnp(Instant(MS));
    assert!(near(rate(&mut flow, MS), 5e9));
    assert_eq!(flow.target(), 10 * GBIT);
}

/// Two cuts are 4 us apart: a CNP before that cuts at the end of the period, and only once.
#[test]
fn cuts_are_four_microseconds_apart() {
    let mut flow = new();
    for at in [0, 1, 2, 3] {
        flow.on_cnp(Instant(MS + at * US));
    }
    assert!(near(rate(&mut flow, MS + 3999), 5e9));
    assert!(near(rate(&mut flow, MS + 4000), 2.5e9));
    assert!(near(rate(&mut flow, MS + 250 * US), 2.5e9));
}

/// Alpha keeps 1019/1024 in each microsecond: half of it in 140.
#[test]
fn alpha_decays_with_time() {
    let mut flow = Dcqcn::new(STILL, LINE);
    flow.on_cnp(Instant(0));
    flow.on_cnp(Instant(141_500));
    let want = (1019.0_f64 / 1024.0).powi(140) * (1.0 - 2.0 / 1024.0);
    let alpha = flow.alpha() as f64 / (1u64 << 31) as f64;
    assert!((alpha - want).abs() < 0.01, "{alpha} {want}");
    assert!(near(rate(&mut flow, 141_500), 5e9 * (1.0 - alpha / 2.0)));
    // A second later nothing is left of it: the cut is none.
    let before = rate(&mut flow, 1000 * MS);
    flow.on_cnp(Instant(1000 * MS));
    assert_eq!(rate(&mut flow, 1000 * MS), before);
}

/// Alpha with a CNP in each period of alpha stays what it is, about 1.
#[test]
fn alpha_is_the_share_of_periods_with_a_cnp() {
    let mut flow = Dcqcn::new(STILL, LINE);
    for n in 0..2000 {
        flow.on_cnp(Instant(n * US));
    }
    assert!(near(flow.alpha(), (1u64 << 31) as f64));
    // One in four.
    for n in 500..2000 {
        flow.on_cnp(Instant(4 * n * US));
    }
    assert!(flow.alpha().abs_diff(1 << 29) < 1 << 24);
}

/// No cut leaves less than half, nor less than 1 Mb/s.
#[test]
fn the_smallest_rate_is_one_megabit() {
    let mut flow = Dcqcn::new(STILL, LINE);
    let mut before = 10 * GBIT;
    for n in 0..1000 {
        flow.on_cnp(Instant(4 * n * US));
        let now = rate(&mut flow, 4 * n * US);
        assert!(now >= before / 2 && now <= before && now >= MBIT);
        before = now;
    }
    assert_eq!(before, MBIT);
}

/// Fast recovery: the first increase by time goes half of the way to the target, which stays.
#[test]
fn time_increases_the_rate() {
    let mut flow = new();
    flow.on_cnp(Instant(0));
    let begin = rate(&mut flow, 299 * US);
    assert!(near(begin, 5e9));
    assert_eq!(rate(&mut flow, 300 * US), (begin + 10 * GBIT).div_ceil(2));
    assert_eq!(flow.target(), 10 * GBIT);
}

/// A flow that was cut twice at once: 10 Gb/s is the target, 2.5 Gb/s the rate, of a line of 100.
fn twice(line: u32) -> Dcqcn {
    let mut flow = Dcqcn::new(Params::CONNECTX, line);
    flow.on_cnp(Instant(0));
    flow.on_cnp(Instant(4 * US));
    flow
}

/// Additive increase when one of the two has counted further than the threshold, hyper increase
/// when both have.
#[test]
fn the_steps_are_five_and_fifty_megabits() {
    let mut flow = twice(LINE);
    // A third cut, after an increase, makes the rate the target.
    assert!(rate(&mut flow, 400 * US) < 7 * GBIT);
    flow.on_cnp(Instant(400 * US));
    let from = flow.target();
    let sent = |flow: &mut Dcqcn| flow.on_sent(Instant(401 * US), 32_767);
    sent(&mut flow);
    assert_eq!(flow.target(), from, "fast recovery");
    sent(&mut flow);
    assert_eq!(flow.target(), from + 5 * MBIT, "additive, by bytes");
    rate(&mut flow, 700 * US);
    assert_eq!(flow.target(), from + 10 * MBIT, "additive: once by time");
    rate(&mut flow, 1000 * US);
    assert_eq!(flow.target(), from + 60 * MBIT, "hyper, by time");
    flow.on_sent(Instant(1000 * US), 2 * 32_767);
    assert_eq!(flow.target(), from + 160 * MBIT, "hyper, by bytes");
}

/// A byte less than the byte counter asks for increases nothing.
#[test]
fn bytes_are_counted_exactly() {
    let mut flow = twice(LINE);
    let before = rate(&mut flow, 5 * US);
    flow.on_sent(Instant(5 * US), 32_000);
    flow.on_sent(Instant(5 * US), 766);
    assert_eq!(rate(&mut flow, 5 * US), before);
    flow.on_sent(Instant(5 * US), 1);
    assert!(rate(&mut flow, 5 * US) > before);
}

/// The clamps: the target follows the rate if that has grown since the last cut, by bytes always,
/// by time as the parameter says; or at each cut.
#[test]
fn the_target_is_clamped_as_the_parameters_say() {
    const BYTES: Params = Params {
        rp_clamp_tgt_rate_ati: 0,
        ..Params::CONNECTX
    };
    const ALWAYS: Params = Params {
        rp_clamp_tgt_rate: 1,
        ..Params::CONNECTX
    };
    let target = |params, by_time: bool, by_bytes: bool| {
        let mut flow = Dcqcn::new(params, LINE);
        flow.on_cnp(Instant(0));
        let now = if by_time { 310 * US } else { 10 * US };
        if by_bytes {
            flow.on_sent(Instant(now), 32_767);
        }
        let before = rate(&mut flow, now);
        flow.on_cnp(Instant(now));
        (flow.target() == before, flow.target() == 10 * GBIT)
    };
    let (clamped, kept) = ((true, false), (false, true));
    assert_eq!(target(Params::CONNECTX, false, false), kept);
    assert_eq!(target(Params::CONNECTX, true, false), clamped);
    assert_eq!(target(Params::CONNECTX, false, true), clamped);
    assert_eq!(target(BYTES, true, false), kept);
    assert_eq!(target(BYTES, false, true), clamped);
    assert_eq!(target(ALWAYS, false, false), clamped);
}

/// A rate that is the line's again is no limit, and the next CNP is a first one.
#[test]
fn the_limit_ends() {
    let mut flow = twice(LINE);
    assert_eq!(flow.rate(Instant(1000 * MS)), None);
    flow.on_cnp(Instant(2000 * MS));
    assert!(near(rate(&mut flow, 2000 * MS), 5e9));
}

/// Increases of a long time are computed at once, and come to the same as one by one.
#[test]
fn a_long_silence_counts_as_many_short_ones() {
    let cut = || {
        let mut flow = Dcqcn::new(Params::CONNECTX, 100_000);
        for n in 0..100 {
            flow.on_cnp(Instant(n * 310 * US));
        }
        for n in 0..100 {
            flow.on_cnp(Instant(31 * MS + n * 5 * US));
        }
        flow
    };
    let (mut one, mut many) = (cut(), cut());
    for n in 1..2000 {
        let now = 32 * MS + n * 300 * US;
        let each = many.rate(Instant(now));
        if n % 500 == 0 {
            let all = one.rate(Instant(now)).expect("a limit");
            assert!(near(all, each.expect("a limit") as f64), "{n}");
        }
    }
}

/// ConnectX's defaults but for these, of which each is "NAME=VALUE".
fn params(values: &[&str]) -> Params {
    let mut params = Params::CONNECTX;
    for each in values {
        let (name, value) = each.split_once('=').expect("a value");
        let value = value.parse().expect("a number");
        assert!(of(name).set(&mut params, value), "{each}");
    }
    params
}

/// The rates of the reference, within 1 %.
#[test]
fn the_rate_is_that_of_the_reference() {
    let (mut flow, mut max, mut name) = (new(), 0, "");
    let mut checked = 0;
    for line in TRACES.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if let ["trace", of, mbps, ref values @ ..] = words[..] {
            let params = params(values);
            let mbps = mbps.parse().expect("a rate");
            name = of;
            flow = Dcqcn::new(params, mbps);
            max = u64::from(mbps.min(match params.rp_max_rate {
                0 => mbps,
                most => most,
            })) * MBIT;
            continue;
        }
        let [at, kind, bytes, want, target, _alpha] = words[..] else {
            panic!("{line}");
        };
        let now = Instant(at.parse().expect("a time"));
        match kind {
            "cnp" => flow.on_cnp(now),
            "sent" => flow.on_sent(now, bytes.parse().expect("bytes")),
            _ => {}
        }
        let is = flow.rate(now).unwrap_or(max);
        let (want, target): (f64, f64) = (want.parse().unwrap(), target.parse().unwrap());
        assert!(near(is, want), "{name}: {is}, and not {line}");
        assert!(near(flow.target(), target), "{name}: target, {line}");
        checked += 1;
    }
    assert!(checked > 500, "{checked}");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Cnp,
    Sent(u32),
    Look,
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let kind = prop_oneof![
        Just(Event::Cnp),
        any::<u32>().prop_map(Event::Sent),
        (0..70_000u32).prop_map(Event::Sent),
        Just(Event::Look),
    ];
    let gap = prop_oneof![0..10 * US, 0..MS, 0..u64::MAX / 4];
    (gap, kind)
}

proptest! {
    /// Whatever happens, rates are between the smallest and the line's, a CNP raises none, and the
    /// rate falls only by one.
    #[test]
    fn rates_have_bounds(
        line in prop_oneof![Just(0), 1..2_000_000u32, any::<u32>()],
        events in proptest::collection::vec(event(), 1..100),
    ) {
        let mut flow = Dcqcn::new(Params::CONNECTX, line);
        let max = u64::from(line.clamp(1, 1_000_000)) * MBIT;
        let mut now = 0u64;
        let mut owed = false;
        for (gap, event) in events {
            let before = flow.rate(Instant(now));
            now = now.saturating_add(gap);
            let waited = flow.rate(Instant(now)).unwrap_or(max);
            prop_assert!(owed || waited >= before.unwrap_or(max));
            match event {
                Event::Cnp => flow.on_cnp(Instant(now)),
                Event::Sent(bytes) => flow.on_sent(Instant(now), bytes),
                Event::Look => {}
            }
            let after = flow.rate(Instant(now)).unwrap_or(max);
            prop_assert!((MBIT.min(max)..=max).contains(&after));
            match event {
                Event::Cnp => {
                    prop_assert!(after <= waited && after >= waited / 2);
                    owed = true;
                }
                _ => prop_assert!(after >= waited),
            }
        }
    }

    /// CNPs leave a flow no faster than it would be without the last of them.
    #[test]
    fn one_more_cnp_makes_no_flow_faster(
        gaps in proptest::collection::vec(0..MS, 1..50),
        wait in 0..MS,
    ) {
        let (mut with, mut without) = (new(), new());
        let mut now = 0;
        for gap in gaps {
            now += gap;
            with.on_cnp(Instant(now));
            without.on_cnp(Instant(now));
        }
        now += wait;
        with.on_cnp(Instant(now));
        let (with, without) = (with.rate(Instant(now)), without.rate(Instant(now)));
        let line = u64::from(LINE) * MBIT;
        prop_assert!(with.unwrap_or(line) <= without.unwrap_or(line));
    }
}
