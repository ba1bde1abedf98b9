// SPDX-License-Identifier: GPL-2.0

//! Tests of the simulator itself: each deliberate bug is found by the oracles.

use oxe_sim::profile::Profile;
use oxe_sim::runner::run;
use oxe_sim::sabotage::{Sabotage, Saboteur};

/// Runs with a saboteur who finds an occasion.
const RUNS: u64 = 60;

/// In which weather the bug has to show. Where packets are lost a liveness bug may hide behind
/// retries, and a packet that the ICRC should stop must be there to be let through.
fn profile(kind: Sabotage) -> Profile {
    match kind {
        Sabotage::DropAckReq => Profile::Clean,
        Sabotage::DeafTimer => Profile::Lossy,
        Sabotage::IgnoreIcrc => Profile::Corrupt,
        _ => Profile::Shuffle,
    }
}

/// Strikes and finds, in percent.
fn found(kind: Sabotage) -> u64 {
    let (mut struck, mut found, mut seed) = (0, 0, 0);
    while struck < RUNS {
        seed += 1;
        assert!(seed < 100 * RUNS, "no occasion for {kind:?}");
        let patience = (seed % 7) as u32;
        let outcome = run(seed, profile(kind), Saboteur::new(kind, patience), false);
        if outcome.struck > 0 {
            struck += 1;
            found += u64::from(outcome.failure.is_some());
        } else {
            assert_eq!(outcome.failure, None, "{kind:?} blamed without a strike");
        }
    }
    100 * found / struck
}

#[test]
fn every_bug_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    for kind in Sabotage::ALL {
        println!("{kind:?}: {} %", found(kind));
    }
}
