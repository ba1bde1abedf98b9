// SPDX-License-Identifier: GPL-2.0

//! The lab tells controllers apart.

use oxe_proto::transport::{CongestionControl, Cubic};
use oxe_sim::lab::fixed::Fixed;
use oxe_sim::lab::report::Row;
use oxe_sim::lab::scenario::all;

fn row<C: CongestionControl>(name: &str) -> Row {
    let scenarios = all();
    let scenario = scenarios.iter().find(|s| s.name == name).unwrap();
    Row::measure::<C>(scenario)
}

/// A window of eight packets is too much for many connections, and too little for one.
#[test]
fn a_window_that_never_changes_misses_its_bounds() {
    for name in ["crowd-send", "lossless-write", "long-write"] {
        assert!(!row::<Fixed>(name).passed, "{name}");
    }
}

/// A queue that marks stays short if the senders react to CNPs, and grows if they do not.
#[test]
fn reaction_points_keep_a_queue_short() {
    let scenarios = all();
    let reacting = scenarios.iter().find(|s| s.name == "ecn-8-write").unwrap();
    let row = Row::measure::<Cubic>(reacting);
    assert!(row.passed, "{row}");
    let mut deaf = reacting.clone();
    deaf.marks = None;
    let row = Row::measure::<Cubic>(&deaf);
    assert!(row.median.queue > 2.0 * reacting.bounds.queue, "{row}");
}
