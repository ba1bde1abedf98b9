// SPDX-License-Identifier: GPL-2.0

//! The situations that a controller is judged by, and what it has to reach in each.

use super::bottleneck::Choice;
use super::end::Workload;
use super::red::Parameters;
use crate::api::SendOp;
use crate::profile::{MS, US};
use crate::rng::Ppm;

/// Bounds on what is measured.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Least goodput, as a share of the ceiling.
    pub share: f64,
    /// Most packets dropped, as a share of those offered.
    pub dropped: f64,
    /// Least of Jain's index.
    pub jain: f64,
    /// Least goodput of a connection, as a share of the mean.
    pub poorest: f64,
    /// Most latency of 99 of 100 messages, as a multiple of the ideal.
    pub latency: f64,
    /// Most packets of the path MTU in the queue, in the mean.
    pub queue: f64,
}

/// No bound at all.
const ANY: Bounds = Bounds {
    share: 0.0,
    dropped: 1.0,
    jain: 0.0,
    poorest: 0.0,
    latency: f64::INFINITY,
    queue: f64::INFINITY,
};

/// A situation. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// Connections, and the time between the first message of one and of the next.
    pub flows: usize,
    pub stagger: u64,
    pub work: Workload,
    pub pmtu: u32,
    /// The bottleneck: bits in a second, bytes of the queue, packets lost on the way, and the time
    /// of a packet from there to its destination.
    pub rate: f64,
    pub queue: u64,
    /// How it chooses packets to mark or drop before its queue is full. The connections react by
    /// DCQCN, and their packets are ECN-capable.
    pub choice: Choice,
    pub reacts: bool,
    /// So many of the connections, the first ones, are controlled by delay.
    pub by_delay: usize,
    pub loss: Ppm,
    pub delay: u64,
    /// Bits in a second of the hosts' own links.
    pub link: f64,
    pub warm_up: u64,
    pub time: u64,
    pub bounds: Bounds,
}

impl Scenario {
    /// The direction of the payload: 0 from requesters to responders, 1 for READs.
    pub fn data_way(&self) -> usize {
        usize::from(self.work.op == SendOp::Read)
    }

    /// How much payload the bottleneck can carry in the time measured, in bytes.
    pub fn ceiling(&self) -> f64 {
        let payload = f64::from(self.pmtu);
        self.rate / 8e9 * self.time as f64 * payload / (payload + 58.0)
    }

    /// How long a message of each connection takes if the bottleneck is never idle, ns.
    pub fn ideal_latency(&self) -> f64 {
        let bytes = f64::from(self.work.len) * self.work.depth as f64 * self.flows as f64;
        let share = self.ceiling() / self.time as f64;
        bytes / share + 2.0 * self.delay as f64
    }
}

const MBIT: f64 = 1e6;
const GBIT: f64 = 1e9;

/// 8 connections through a slow link with a queue of 150 kB.
fn base(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        name,
        flows: 8,
        stagger: 0,
        work: Workload {
            op,
            len: 1 << 16,
            depth: 16,
        },
        pmtu: 1024,
        rate: 200.0 * MBIT,
        queue: 150_000,
        choice: Choice::Tail,
        reacts: false,
        by_delay: 0,
        loss: 0,
        delay: 50 * US,
        link: 10.0 * GBIT,
        warm_up: 500 * MS,
        time: 2000 * MS,
        bounds: Bounds {
            share: 0.98,
            dropped: 0.015,
            ..ANY
        },
    }
}

fn crowd(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        flows: 100,
        stagger: 20 * US,
        bounds: Bounds {
            share: 0.95,
            dropped: 0.03,
            poorest: 0.1,
            ..ANY
        },
        ..base(name, op)
    }
}

/// One connection over a link that is as fast as the hosts, and loses packets.
fn lossy(name: &'static str, op: SendOp, loss: Ppm, share: f64) -> Scenario {
    Scenario {
        flows: 1,
        rate: 10.0 * GBIT,
        queue: 1_000_000,
        loss,
        delay: 25 * US,
        warm_up: 50 * MS,
        time: 300 * MS,
        bounds: Bounds { share, ..ANY },
        ..base(name, op)
    }
}

/// The same at 1 Gb/s.
fn slow_lossy(name: &'static str, op: SendOp, loss: Ppm, share: f64) -> Scenario {
    Scenario {
        rate: GBIT,
        queue: 150_000,
        link: GBIT,
        ..lossy(name, op, loss, share)
    }
}

/// Two connections, one of which comes late, over a path of a millisecond.
fn fairness(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        flows: 2,
        stagger: 300 * MS,
        rate: GBIT,
        delay: 500 * US,
        warm_up: 1000 * MS,
        bounds: Bounds {
            share: 0.8,
            jain: 0.95,
            ..ANY
        },
        ..base(name, op)
    }
}

fn incast(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        flows: 32,
        work: Workload {
            op,
            len: 1 << 20,
            depth: 1,
        },
        rate: 10.0 * GBIT,
        queue: 500_000,
        delay: 10 * US,
        warm_up: 100 * MS,
        time: 300 * MS,
        bounds: Bounds {
            share: 0.85,
            latency: 4.0,
            ..ANY
        },
        ..base(name, op)
    }
}

/// K: a queue that holds more packets than this marks them.
const K: usize = 20;

/// Connections over a link as fast as the hosts', which marks packets.
fn marking(name: &'static str, op: SendOp, flows: usize) -> Scenario {
    Scenario {
        flows,
        rate: 10.0 * GBIT,
        queue: 1_000_000,
        choice: Choice::Above(K),
        reacts: true,
        delay: 10 * US,
        warm_up: 100 * MS,
        time: 150 * MS,
        bounds: Bounds {
            share: 0.9,
            dropped: 0.0,
            queue: 2.0 * K as f64,
            ..ANY
        },
        ..base(name, op)
    }
}

/// The same by RED: from K packets on some are marked, and from three times as many all. The weight
/// of the newest length in the mean is 1 in routers as DCQCN wants them, and 0.002 in RED's paper.
fn red(name: &'static str, op: SendOp, weight: f64, bounds: Bounds) -> Scenario {
    let parameters = Parameters {
        least: K as f64,
        most: 3.0 * K as f64,
        probability: 0.1,
        weight,
    };
    Scenario {
        choice: Choice::Red(parameters),
        bounds,
        ..marking(name, op, 8)
    }
}

/// What connections reach with RED: with a slow mean, which oscillates, less.
fn by_red(share: f64, queue: f64) -> Bounds {
    Bounds {
        share,
        dropped: 0.0,
        queue: queue * K as f64,
        ..ANY
    }
}

/// As the first ones, with a deep queue that CoDel keeps short by drops: its 5 ms are 125 kB.
fn codel(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        queue: 1_500_000,
        choice: Choice::Codel,
        bounds: Bounds {
            share: 0.95,
            dropped: 0.03,
            queue: 4.0 * 125_000.0 / 1082.0,
            ..ANY
        },
        ..base(name, op)
    }
}

/// Connections over a link as fast as the hosts', on a network of their own: they are controlled by
/// delay.
fn own(name: &'static str, op: SendOp, flows: usize) -> Scenario {
    Scenario {
        flows,
        by_delay: flows,
        rate: 10.0 * GBIT,
        queue: 1_000_000,
        delay: 10 * US,
        warm_up: 100 * MS,
        time: 150 * MS,
        bounds: Bounds {
            share: 0.9,
            dropped: 0.0,
            queue: 5.0,
            ..ANY
        },
        ..base(name, op)
    }
}

/// A connection that is controlled by delay, and one by CUBIC, which fills the queue.
fn beside_cubic(name: &'static str) -> Scenario {
    Scenario {
        by_delay: 1,
        rate: GBIT,
        queue: 150_000,
        delay: 50 * US,
        bounds: Bounds { share: 0.9, ..ANY },
        ..own(name, SendOp::Write, 2)
    }
}

/// 10 ms at 10 Gb/s.
fn long(name: &'static str, op: SendOp) -> Scenario {
    Scenario {
        flows: 1,
        work: Workload {
            op,
            len: 1 << 20,
            depth: 64,
        },
        rate: 10.0 * GBIT,
        queue: 12_500_000,
        delay: 5 * MS,
        warm_up: 500 * MS,
        time: 500 * MS,
        bounds: Bounds { share: 0.8, ..ANY },
        ..base(name, op)
    }
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    use SendOp::{Read, Send, Write};
    vec![
        base("bottleneck-send", Send),
        base("bottleneck-read", Read),
        crowd("crowd-send", Send),
        crowd("crowd-read", Read),
        lossy("lossless-write", Write, 0, 0.99),
        lossy("lossless-read", Read, 0, 0.99),
        lossy("loss-0.1-write", Write, 1_000, 0.95),
        lossy("loss-1-write", Write, 10_000, 0.8),
        lossy("loss-1-read", Read, 10_000, 0.8),
        slow_lossy("loss-1-slow-write", Write, 10_000, 0.8),
        slow_lossy("loss-1-slow-read", Read, 10_000, 0.8),
        fairness("fairness-write", Write),
        fairness("fairness-read", Read),
        incast("incast-write", Write),
        incast("incast-read", Read),
        marking("ecn-2-write", Write, 2),
        marking("ecn-8-write", Write, 8),
        marking("ecn-8-read", Read, 8),
        marking("ecn-32-write", Write, 32),
        red("red-8-write", Write, 1.0, by_red(0.9, 3.0)),
        red("red-8-read", Read, 1.0, by_red(0.9, 3.0)),
        red("red-mean-write", Write, 0.002, by_red(0.7, 4.0)),
        codel("codel-send", Send),
        codel("codel-read", Read),
        own("own-2-write", Write, 2),
        own("own-8-write", Write, 8),
        own("own-2-read", Read, 2),
        own("own-8-read", Read, 8),
        beside_cubic("own-beside-cubic"),
        long("long-write", Write),
        long("long-read", Read),
    ]
}
