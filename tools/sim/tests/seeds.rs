// SPDX-License-Identifier: GPL-2.0

//! A hundred seeds and more of every profile, and that the profiles are not idle. `make test` runs
//! many more of them with the command.

use oxe_sim::host::sabotage::Saboteur;
use oxe_sim::judge::stats::{uc, Stats};
use oxe_sim::log::Mode;
use oxe_sim::profile::Profile;
use oxe_sim::runner::{run, run_many, Seeds, Summary};

const SEEDS: u64 = 120 * Profile::ALL.len() as u64;

/// UC QPs do what they are for, and in their own profile all that may go wrong does.
fn uc_does_it_all(profile: Profile, stats: &uc::Stats, least: u64) {
    let busy = stats.posted > 100 * least && stats.arrived > 50 * least;
    let harmed = stats.dropped > least && stats.duplicates > least && stats.coalesced > 100 * least;
    let sends = stats.taken_back > 10 * least
        && stats.drained > least
        && stats.local_operations > 10 * least;
    assert!(busy && harmed && sends, "{profile:?}: {stats:?}");
    let programs = stats.failed > 10 && stats.flushed > 100 && stats.resets > 10;
    let receives = stats.receives_reused > 10 && stats.unusable > 3 && stats.flawed > 10;
    let all = programs && receives && stats.unrouted > 10;
    assert!(all || profile != Profile::Uc, "{profile:?}: {stats:?}");
}

fn summary() -> Summary {
    let seeds = Seeds {
        first: 0,
        count: SEEDS,
        profiles: &Profile::ALL,
    };
    run_many(seeds, Mode::Off, 2, &|_| {})
}

#[test]
fn all_profiles_pass_and_do_what_they_are_for() {
    let summary = summary();
    let failures: Vec<_> = summary
        .failed
        .iter()
        .map(|o| (o.replay(), o.failure.clone()))
        .collect();
    assert_eq!(failures, []);
    assert_eq!(summary.passed, SEEDS);
    let of = |profile: Profile| &summary.stats[profile as usize];
    for profile in Profile::ALL {
        let Stats {
            succeeded,
            packets,
            coalesced,
            local_operations,
            ..
        } = *of(profile);
        // The foreign peer sends and takes each packet for itself.
        let coalesced = coalesced > 150 || profile == Profile::Foreign;
        assert!(
            succeeded > 300 && packets > 2_000 && coalesced,
            "{profile:?}: {:?}",
            of(profile)
        );
        // One end alone has such requests in a run with the foreign peer.
        assert!(local_operations > 30, "{profile:?}: {:?}", of(profile));
    }
    let keyed = summary.stats.iter().filter(|stats| stats.keys_used > 0);
    assert!(keyed.count() > Profile::ALL.len() / 2);
    let mut all = Stats::default();
    summary.stats.iter().for_each(|stats| all.add(stats));
    let ended = [all.ended_by_local_inv, all.ended_by_read, all.ended_by_send];
    assert!(ended.iter().all(|n| *n > 10), "{ended:?}");
    let clean = of(Profile::Clean);
    assert_eq!(
        (clean.failed, clean.retry_exceeded, clean.rnr_exceeded),
        (0, 0, 0)
    );
    assert!(of(Profile::Lossy).timeouts > 100);
    assert!(of(Profile::Bulk).packets > 50_000);
    assert!(of(Profile::Shuffle).dropped > 1_000);
    assert!(of(Profile::NotReady).rnr_exceeded > 0);
    assert!(of(Profile::Errors).failed > 30 && of(Profile::Errors).refused > 20);
    assert!(of(Profile::Errors).ended_keys_used > 0);
    assert!(of(Profile::Exhaust).retry_exceeded > 30);
    assert!(of(Profile::Abort).flushed > 300 && of(Profile::Abort).qps_reused > 10);
    let deregister = of(Profile::Deregister);
    assert!(deregister.deregistered > 100 && deregister.failed > 30 && deregister.refused > 30);
    assert!(of(Profile::Drain).drained > 100);
    assert!(of(Profile::TxFail).taken_back > 1_000);
    assert!(of(Profile::Datagram).datagrams > 2_000);
    for (profile, least) in [(Profile::Uc, 10), (Profile::Storm, 1)] {
        uc_does_it_all(profile, &of(profile).uc, least);
    }
    let foreign = of(Profile::Foreign);
    assert!(foreign.succeeded > 2_000 && foreign.failed > 5 && foreign.dropped > 10_000);
    let faults = of(Profile::PageFaults);
    let found = faults.pages_missing > 500 && faults.receives_resumed > 100;
    let found = found && faults.payloads_missing > 1_000;
    let lost = faults.uc.pages_missing > 100 && faults.uc.payloads_missing > 500;
    assert!(found && lost && faults.rnr_naks > 500, "{faults:?}");
    assert!(of(Profile::Hostile).forged > 10_000);
}

#[test]
fn a_seed_is_a_run() {
    for profile in Profile::ALL {
        let stats = |seed| run(seed, profile, Saboteur::default(), Mode::Off).stats;
        assert_eq!(stats(77), stats(77), "{profile:?}");
        assert_ne!(stats(77), stats(78), "{profile:?}");
    }
}

/// A digest is that of the runs, however many threads run them.
#[test]
fn a_digest_tells_runs_apart() {
    let digest = |first, threads| {
        let seeds = Seeds {
            first,
            count: 8,
            profiles: &[Profile::Clean, Profile::Storm],
        };
        let summary = run_many(seeds, Mode::Hashed, threads, &|_| {});
        [Profile::Clean, Profile::Storm].map(|profile| summary.digest(profile))
    };
    let all = digest(0, 1);
    assert_eq!(all, digest(0, 3));
    assert!(all[0] != all[1] && all != digest(2, 1));
}
