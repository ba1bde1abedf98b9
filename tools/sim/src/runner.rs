// SPDX-License-Identifier: GPL-2.0

//! Runs seeds: one, or many on all cores.

use crate::profile::Profile;
use crate::sabotage::Saboteur;
use crate::world::{Run, Stats, World};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// The outcome of a seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    pub profile: Profile,
    pub stats: Stats,
    /// The finding of a judge, or the text of a panic.
    pub failure: Option<String>,
    /// How often sabotage was committed.
    pub struck: u32,
}

impl Outcome {
    /// The line that repeats the run, typed in the checkout.
    pub fn replay(&self) -> String {
        let (seed, profile) = (self.seed, self.profile.name());
        format!("replay: scripts/sim --seed {seed:#x} --profile {profile} -v")
    }
}

/// Runs one seed.
pub fn run(seed: u64, profile: Profile, saboteur: Saboteur, verbose: bool) -> Outcome {
    let mut outcome = Outcome {
        seed,
        profile,
        stats: Stats::default(),
        failure: None,
        struck: 0,
    };
    let run = Run { seed, profile };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(run, saboteur, verbose);
        let result = world.run();
        (result, world.stats, world.saboteur.struck)
    }));
    match result {
        Ok((result, stats, struck)) => {
            outcome.failure = result.err();
            outcome.stats = stats;
            outcome.struck = struck;
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            outcome.failure = Some(format!("panic: {}", text.unwrap_or_default()));
        }
    }
    outcome
}

/// The outcome of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    pub passed: u64,
    pub failed: Vec<Outcome>,
    /// By profile, in the order of [`Profile::ALL`].
    pub stats: Vec<Stats>,
}

/// Runs `count` seeds from `first` on, dealt out to `profiles` in turn, on `threads` threads. After
/// each it tells `progress` how many are done.
pub fn run_many(
    first: u64,
    count: u64,
    profiles: &[Profile],
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Summary {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let summary = Mutex::new(Summary {
        stats: vec![Stats::default(); Profile::ALL.len()],
        ..Summary::default()
    });
    let work = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        if i >= count {
            return;
        }
        let profile = profiles[(i % profiles.len() as u64) as usize];
        let seed = first.wrapping_add(i);
        let outcome = run(seed, profile, Saboteur::default(), false);
        let mut all = summary.lock().unwrap_or_else(|e| e.into_inner());
        all.stats[profile as usize].add(&outcome.stats);
        if outcome.failure.is_some() {
            all.failed.push(outcome);
        } else {
            all.passed += 1;
        }
        drop(all);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(|e| e.into_inner());
    summary.failed.sort_by_key(|o| o.seed);
    summary
}
