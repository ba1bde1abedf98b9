// SPDX-License-Identifier: GPL-2.0

//! What the runs of a profile have met, as numbers.

pub mod uc;

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub events: u64,
    pub packets: u64,
    pub requests: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub flushed: u64,
    pub retry_exceeded: u64,
    pub rnr_exceeded: u64,
    pub timeouts: u64,
    pub dropped: u64,
    pub refused: u64,
    pub undone: u64,
    pub deregistered: u64,
    pub drained: u64,
    pub reborn: u64,
    pub forged: u64,
    pub datagrams: u64,
    pub uc: uc::Stats,
    /// Packets that a QP took together with the one before.
    pub together: u64,
    /// Requests carried out that send nothing; those posted with a fast-registered key, and with
    /// one that has ended.
    pub locals: u64,
    pub leased: u64,
    pub stale: u64,
    /// Keys that a LOCAL_INV, a READ and a SEND have ended.
    pub ended: [u64; 3],
    /// Packets dropped because a page was missing, and receives that were taken again for that;
    /// packets taken back because a page was missing; RNR NAKs sent.
    pub missing: u64,
    pub retaken: u64,
    pub hidden: u64,
    pub rnr_naks: u64,
}

impl Stats {
    /// Adds another run's.
    pub fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.packets += other.packets;
        self.requests += other.requests;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.flushed += other.flushed;
        self.retry_exceeded += other.retry_exceeded;
        self.rnr_exceeded += other.rnr_exceeded;
        self.timeouts += other.timeouts;
        self.dropped += other.dropped;
        self.refused += other.refused;
        self.undone += other.undone;
        self.deregistered += other.deregistered;
        self.drained += other.drained;
        self.reborn += other.reborn;
        self.forged += other.forged;
        self.datagrams += other.datagrams;
        self.uc.add(&other.uc);
        self.together += other.together;
        self.locals += other.locals;
        self.leased += other.leased;
        self.stale += other.stale;
        for (ended, more) in self.ended.iter_mut().zip(other.ended) {
            *ended += more;
        }
        self.missing += other.missing;
        self.retaken += other.retaken;
        self.hidden += other.hidden;
        self.rnr_naks += other.rnr_naks;
    }
}
