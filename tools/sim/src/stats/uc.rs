// SPDX-License-Identifier: GPL-2.0

//! What the UC QPs have met.

/// Statistics of the UC QPs of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages posted, arrived, and cut off or refused at the responder.
    pub posted: u64,
    pub arrived: u64,
    pub dropped: u64,
    /// Packets dropped as duplicates, and messages that were taken once more, long after.
    pub duplicates: u64,
    pub revived: u64,
    /// Packets taken together with the one before.
    pub together: u64,
    /// Receives that a dropped message left to the next one.
    pub reused: u64,
    /// Requests that failed, and that were flushed.
    pub failed: u64,
    pub flushed: u64,
    /// Messages lost for want of a route; packets taken back.
    pub unrouted: u64,
    pub undone: u64,
    /// Send queues drained; QPs reset; requests carried out that send nothing.
    pub drained: u64,
    pub resets: u64,
    pub locals: u64,
    /// Receives that took a QP to the error state.
    pub unusable: u64,
    /// Messages with packets of wrong lengths.
    pub flawed: u64,
    /// Packets dropped, and packets taken back, because a page was missing.
    pub missing: u64,
    pub hidden: u64,
}

impl Stats {
    /// Adds another run's.
    pub fn add(&mut self, other: &Stats) {
        self.posted += other.posted;
        self.arrived += other.arrived;
        self.dropped += other.dropped;
        self.duplicates += other.duplicates;
        self.revived += other.revived;
        self.together += other.together;
        self.reused += other.reused;
        self.failed += other.failed;
        self.flushed += other.flushed;
        self.unrouted += other.unrouted;
        self.undone += other.undone;
        self.drained += other.drained;
        self.resets += other.resets;
        self.locals += other.locals;
        self.unusable += other.unusable;
        self.flawed += other.flawed;
        self.missing += other.missing;
        self.hidden += other.hidden;
    }
}
