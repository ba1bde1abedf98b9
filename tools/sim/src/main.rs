// SPDX-License-Identifier: GPL-2.0

//! The simulator's command: runs seeds, or repeats one.

use oxe_sim::host::sabotage::Saboteur;
use oxe_sim::lab::report;
use oxe_sim::log::Mode;
use oxe_sim::profile::Profile;
use oxe_sim::runner::{run, run_many, Outcome, Seeds};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: oxe-sim [--seeds N] [--first SEED] [--profile NAME]... [--stats] [--digest]
       oxe-sim --seed SEED --profile NAME [-v]
       oxe-sim lab [SCENARIO] [CONTROLLER]

Runs N seeds (10000), dealt out to all profiles in turn, or one seed. Numbers may be hexadecimal.
--digest prints a line for each profile: a hash of all that its runs log and count. A change that
changes no behaviour changes no digest.
lab measures a congestion controller on a shared bottleneck: all scenarios, or those whose names
begin with SCENARIO.";

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

struct Options {
    seeds: u64,
    first: u64,
    seed: Option<u64>,
    profiles: Vec<Profile>,
    verbose: bool,
    stats: bool,
    digest: bool,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Profile::ALL.iter().map(|p| p.name()).collect();
        format!("no profile {name}; there are {}", names.join(", "))
    })
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        seeds: 10_000,
        first: 0,
        seed: None,
        profiles: Vec::new(),
        verbose: false,
        stats: false,
        digest: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => options.seeds = number(&value()?)?,
            "--first" => options.first = number(&value()?)?,
            "--seed" => options.seed = Some(number(&value()?)?),
            "--profile" => options.profiles.push(profile(&value()?)?),
            "--stats" => options.stats = true,
            "--digest" => options.digest = true,
            "-v" => options.verbose = true,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn report(outcome: &Outcome) {
    if let Some(failure) = &outcome.failure {
        println!(
            "FAILED seed {:#x} ({}): {failure}",
            outcome.seed,
            outcome.profile.name()
        );
        println!("{}", outcome.replay());
    }
}

fn replay(seed: u64, options: &Options) -> ExitCode {
    let Some(profile) = options.profiles.first() else {
        eprintln!("--seed needs --profile");
        return ExitCode::from(2);
    };
    let log = match options.verbose {
        true => Mode::Printed,
        false => Mode::Off,
    };
    let outcome = run(seed, *profile, Saboteur::default(), log);
    println!("{:?}", outcome.stats);
    report(&outcome);
    match outcome.failure {
        None => {
            println!("1 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Some(_) => {
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn many(options: &Options) -> ExitCode {
    let profiles = match options.profiles.is_empty() {
        true => Profile::ALL.to_vec(),
        false => options.profiles.clone(),
    };
    // Failures are reported below, with the line that repeats them.
    std::panic::set_hook(Box::new(|_| {}));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let last = std::sync::Mutex::new(Instant::now());
    let progress = |done: u64| {
        let mut last = last.lock().unwrap_or_else(|e| e.into_inner());
        if last.elapsed() >= PROGRESS {
            *last = Instant::now();
            eprintln!("{done} of {} seeds done", options.seeds);
        }
    };
    let seeds = Seeds {
        first: options.first,
        count: options.seeds,
        profiles: &profiles,
    };
    let log = match options.digest {
        true => Mode::Hashed,
        false => Mode::Off,
    };
    let summary = run_many(seeds, log, threads, &progress);
    for outcome in summary.failed.iter().take(20) {
        report(outcome);
    }
    for profile in &profiles {
        if options.stats {
            println!("{}: {:?}", profile.name(), summary.stats[*profile as usize]);
        }
        if options.digest {
            println!("{} {}", summary.digest(*profile), profile.name());
        }
    }
    println!("{} passed, {} failed", summary.passed, summary.failed.len());
    match summary.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// `oxe-sim lab`, without these words.
fn lab(args: &[String]) -> ExitCode {
    let names: Vec<_> = report::CONTROLLERS.iter().map(|(name, _)| *name).collect();
    let scenario = args.first().map_or("", String::as_str);
    let controller = args.get(1).map_or(names[0], String::as_str);
    match report::print(scenario, controller) {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!(
                "no scenario {scenario} or no controller {controller}; there are {}",
                names.join(", ")
            );
            ExitCode::from(2)
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "lab") {
        return lab(&args[1..]);
    }
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match options.seed {
        Some(seed) => replay(seed, &options),
        None => many(&options),
    }
}
