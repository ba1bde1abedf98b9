// SPDX-License-Identifier: GPL-2.0

//! What the lab prints: a row for each scenario, of the median of three seeds.

use super::ack_clocked::AckClocked;
use super::fixed::Fixed;
use super::network::{Measured, Network};
use super::scenario::{all, Scenario};
use oxe_proto::transport::{CongestionControl, Cubic, DelayBased};
use std::fmt;

const SEEDS: [u64; 3] = [1, 2, 3];

/// Figures of a scenario; see [`super::scenario::Bounds`] for the first six.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub share: f64,
    pub dropped: f64,
    pub jain: f64,
    pub poorest: f64,
    pub latency: f64,
    pub queue: f64,
    /// Payload that was sent in vain, as a share of all that was sent.
    pub resent: f64,
    /// Messages that failed.
    pub failed: f64,
}

impl Figures {
    fn of(scenario: &Scenario, measured: &Measured) -> Figures {
        let goodput: Vec<f64> = measured.goodput.iter().map(|b| *b as f64).collect();
        let total: f64 = goodput.iter().sum();
        let squares: f64 = goodput.iter().map(|b| b * b).sum();
        let count = goodput.len() as f64;
        let least = goodput.iter().copied().fold(f64::INFINITY, f64::min);
        let last = measured.latencies.len() * 99 / 100;
        let latency = measured.latencies.get(last);
        let latency = latency.map_or(f64::INFINITY, |ns| *ns as f64);
        let offered = measured.offered.max(1) as f64;
        Figures {
            share: total / scenario.ceiling(),
            dropped: measured.dropped as f64 / offered,
            jain: total * total / (count * squares.max(1.0)),
            poorest: least * count / total.max(1.0),
            latency: latency / scenario.ideal_latency(),
            queue: measured.queue / f64::from(scenario.pmtu + 58),
            resent: (1.0 - total / measured.sent.max(1) as f64).max(0.0),
            failed: measured.failed as f64,
        }
    }

    fn values(&self) -> [f64; 8] {
        [
            self.share,
            self.dropped,
            self.jain,
            self.poorest,
            self.latency,
            self.queue,
            self.resent,
            self.failed,
        ]
    }

    /// The median of each figure.
    fn median(all: &[Figures]) -> Figures {
        let at = |i: usize| {
            let mut values: Vec<f64> = all.iter().map(|f| f.values()[i]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Figures {
            share: at(0),
            dropped: at(1),
            jain: at(2),
            poorest: at(3),
            latency: at(4),
            queue: at(5),
            resent: at(6),
            failed: at(7),
        }
    }
}

/// The outcome of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub median: Figures,
    /// The least and the most goodput of the seeds.
    pub spread: (f64, f64),
    /// Whether all bounds are kept.
    pub passed: bool,
}

impl Row {
    /// Measures a controller.
    pub fn measure<C: CongestionControl>(scenario: &Scenario) -> Row {
        let run = |seed| Network::<C>::new(scenario, seed).run();
        Row::of(scenario, SEEDS.map(run))
    }

    /// Measures the driver's controllers, CUBIC where the scenario names none.
    pub fn standard(scenario: &Scenario) -> Row {
        Row::of(
            scenario,
            SEEDS.map(|seed| Network::standard(scenario, seed).run()),
        )
    }

    fn of(scenario: &Scenario, measured: [Measured; SEEDS.len()]) -> Row {
        let all = measured.map(|measured| Figures::of(scenario, &measured));
        let median = Figures::median(&all);
        let shares = all.map(|f| f.share);
        let bounds = &scenario.bounds;
        Row {
            name: scenario.name,
            median,
            spread: (
                shares.into_iter().fold(f64::INFINITY, f64::min),
                shares.into_iter().fold(0.0, f64::max),
            ),
            passed: median.share >= bounds.share
                && median.dropped <= bounds.dropped
                && median.jain >= bounds.jain
                && median.poorest >= bounds.poorest
                && median.latency <= bounds.latency
                && median.queue <= bounds.queue
                && median.failed == 0.0,
        }
    }
}

/// The line above the rows.
pub const TITLE: &str =
    "scenario         goodput (spread)      dropped   queue   Jain  poorest  99 %  in vain failed";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.median;
        write!(
            f,
            "{:16} {:.3} ({:.3}-{:.3}) {:8.2} % {:7.1} {:6.3} {:8.3} {:5.2} {:7.2} % {:6} {}",
            self.name,
            m.share,
            self.spread.0,
            self.spread.1,
            100.0 * m.dropped,
            m.queue,
            m.jain,
            m.poorest,
            m.latency,
            100.0 * m.resent,
            m.failed,
            if self.passed { "ok" } else { "missed" },
        )
    }
}

/// Measures one controller.
type Measure = fn(&Scenario) -> Row;

/// The controllers, by name.
pub const CONTROLLERS: [(&str, Measure); 5] = [
    ("standard", Row::standard),
    ("cubic", Row::measure::<Cubic>),
    ("delay", Row::measure::<DelayBased>),
    ("ack-clocked", Row::measure::<AckClocked>),
    ("fixed", Row::measure::<Fixed>),
];

/// Prints the rows of the scenarios whose names begin with `name`, one by one. `None` if there is
/// none, or no such controller.
pub fn print(name: &str, controller: &str) -> Option<()> {
    let (_, measure) = CONTROLLERS.iter().find(|(name, _)| *name == controller)?;
    let scenarios: Vec<_> = all()
        .into_iter()
        .filter(|s| s.name.starts_with(name))
        .collect();
    if scenarios.is_empty() {
        return None;
    }
    println!("{TITLE}");
    for scenario in &scenarios {
        println!("{}", measure(scenario));
    }
    Some(())
}
