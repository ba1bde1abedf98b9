// SPDX-License-Identifier: GPL-2.0

//! Runs seeds: one, or many on all cores.

use crate::check::Violation;
use crate::host::sabotage::Saboteur;
use crate::judge::stats::Stats;
use crate::log::{Digest, Log, Mode};
use crate::profile::Profile;
use crate::run::world::{Run, World};
use std::fmt::Write;
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
    pub failure: Option<Violation>,
    /// How often sabotage was committed.
    pub struck: u32,
    /// The digest of the log, if it was hashed; that of no text if the run ended in a panic.
    pub digest: Digest,
}

impl Outcome {
    /// The line that repeats the run, typed in the checkout.
    pub fn replay(&self) -> String {
        let (seed, profile) = (self.seed, self.profile.name());
        format!("replay: scripts/sim --seed {seed:#x} --profile {profile} -v")
    }
}

/// Runs one seed.
pub fn run(seed: u64, profile: Profile, saboteur: Saboteur, log: Mode) -> Outcome {
    let mut outcome = Outcome {
        seed,
        profile,
        stats: Stats::default(),
        failure: None,
        struck: 0,
        digest: Digest::default(),
    };
    let run = Run { seed, profile };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(run, saboteur, Log::new(log));
        let result = world.run();
        let struck = world.saboteur.struck;
        (result, world.stats, struck, world.log.digest())
    }));
    match result {
        Ok((result, stats, struck, digest)) => {
            outcome.failure = result.err();
            outcome.stats = stats;
            outcome.struck = struck;
            outcome.digest = digest;
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            outcome.failure = Some(format!("panic: {}", text.unwrap_or_default()).into());
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
    /// What became of each seed, if logs are hashed: index of the seed, profile, digest.
    digests: Vec<(u64, Profile, Digest)>,
}

impl Summary {
    /// The digest of all runs of a profile in the order of their seeds, if logs are hashed.
    pub fn digest(&self, profile: Profile) -> Digest {
        let mut all = Digest::default();
        for (_, _, digest) in self.digests.iter().filter(|(_, of, _)| *of == profile) {
            // A digest takes any text.
            let _ = writeln!(all, "{digest}");
        }
        all
    }
}

/// The digest of a run: its log, the numbers of its statistics (a name is no behaviour), and how it
/// ended.
fn digest_of(outcome: &Outcome) -> Digest {
    let mut digest = outcome.digest;
    // A digest takes any text.
    let _ = writeln!(digest, "{:?} {:?}", outcome.stats.values(), outcome.failure);
    digest
}

/// Which seeds to run: `count` from `first` on, dealt out to `profiles` in turn.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    pub first: u64,
    pub count: u64,
    pub profiles: &'a [Profile],
}

/// Runs seeds, on `threads` threads. After each it calls `progress` with how many are done.
pub fn run_many(
    seeds: Seeds<'_>,
    log: Mode,
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
        if i >= seeds.count {
            return;
        }
        let profile = seeds.profiles[(i % seeds.profiles.len() as u64) as usize];
        let seed = seeds.first.wrapping_add(i);
        let outcome = run(seed, profile, Saboteur::default(), log);
        let mut all = summary.lock().unwrap_or_else(|e| e.into_inner());
        all.stats[profile as usize].add(&outcome.stats);
        if log == Mode::Hashed {
            all.digests.push((i, profile, digest_of(&outcome)));
        }
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
    summary.digests.sort_by_key(|(i, ..)| *i);
    summary
}
