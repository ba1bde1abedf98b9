// SPDX-License-Identifier: GPL-2.0

//! The lab tells controllers apart.

use oxe_proto::transport::{CongestionControl, Cubic};
use oxe_sim::lab::bottleneck::Choice;
use oxe_sim::lab::fixed::Fixed;
use oxe_sim::lab::report::Row;
use oxe_sim::lab::scenario::all;

fn row<C: CongestionControl>(name: &str) -> Row {
    let scenarios = all();
    let scenario = scenarios.iter().find(|s| s.name == name).unwrap();
    Row::measure::<C>(scenario)
}

/// A window of eight packets is too much for many connections, and too little for one. The
/// default controller keeps the same bounds.
#[test]
fn a_window_that_never_changes_misses_its_bounds() {
    for name in [
        "lossless-write",
        "lossless-read",
        "fairness-write",
        "loss-1-slow-read",
    ] {
        let (fixed, default) = (row::<Fixed>(name), row::<Cubic>(name));
        assert!(!fixed.passed && default.passed, "{fixed}\n{default}");
    }
    for name in ["crowd-send", "long-write"] {
        assert!(!row::<Fixed>(name).passed, "{name}");
    }
}

/// CoDel keeps a deep queue short, which is full without it.
#[test]
fn codel_keeps_a_queue_short() {
    let scenarios = all();
    let short = scenarios.iter().find(|s| s.name == "codel-send").unwrap();
    let row = Row::measure::<Cubic>(short);
    assert!(row.passed, "{row}");
    let mut full = short.clone();
    full.choice = Choice::Tail;
    let row = Row::measure::<Cubic>(&full);
    assert!(row.median.queue > 2.0 * short.bounds.queue, "{row}");
}

/// A queue that marks stays short if the senders react to CNPs, and grows if they do not.
#[test]
fn reaction_points_keep_a_queue_short() {
    let scenarios = all();
    let reacting = scenarios.iter().find(|s| s.name == "ecn-8-write").unwrap();
    let kept = Row::measure::<Cubic>(reacting);
    assert!(kept.passed, "{kept}");
    let mut deaf = reacting.clone();
    deaf.reacts = false;
    let grown = Row::measure::<Cubic>(&deaf);
    assert!(grown.median.queue > 2.0 * reacting.bounds.queue, "{grown}");
    assert!(row::<Cubic>("red-8-write").passed);
}

/// Connections that are controlled by delay keep a queue short, and give way to CUBIC, which does
/// not.
#[test]
fn control_by_delay_keeps_a_queue_short_and_gives_way() {
    let scenarios = all();
    let find = |name| scenarios.iter().find(|s| s.name == name).unwrap();
    let row = Row::standard(find("own-8-write"));
    assert!(row.passed, "{row}");
    let cubic = Row::measure::<Cubic>(find("own-8-write"));
    assert!(cubic.median.queue > 100.0, "{cubic}");
    let beside = Row::standard(find("own-beside-cubic"));
    assert!(beside.median.poorest < 0.3, "{beside}");
}
