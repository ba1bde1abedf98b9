// SPDX-License-Identifier: GPL-2.0

//! The judge that counts, of UC QPs.

use crate::api::{DropReason, Status, Verdict};

/// Something that happens to a UC QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A message is posted.
    Posted,
    /// It has packets of wrong lengths.
    Flawed,
    /// So many packets are taken at a time.
    Taken(u16),
    /// The verdict of a QP on packets.
    Verdict(Verdict),
    /// A message has arrived whole.
    Arrived,
    /// A receive that a dropped message left is used for the next one.
    ReceiveAgain,
    /// A receive takes the QP to the error state.
    Unusable,
    /// A request completes.
    Completed(Status),
    /// A message is lost for want of a route.
    Unrouted,
    /// A packet could not be sent.
    TakenBack,
    /// That was so because its payload could not be read.
    PayloadMissing,
    /// A send queue is drained.
    Drained,
    /// A local operation is carried out.
    CarriedOut,
    /// The program resets the QP.
    Reset,
    /// The life of a responder ends, which has dropped so many messages, and taken so many once
    /// more, long after.
    Ended { dropped: u64, again: u64 },
}

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
    /// Counts what happens.
    pub fn observe(&mut self, observation: Observation) {
        use Observation::*;
        let counter = match observation {
            Posted => &mut self.posted,
            Flawed => &mut self.flawed,
            Taken(count) => {
                self.together += u64::from(count) - 1;
                return;
            }
            Verdict(verdict) => return self.observe_verdict(verdict),
            Arrived => &mut self.arrived,
            ReceiveAgain => &mut self.reused,
            Unusable => &mut self.unusable,
            Completed(Status::Success) => return,
            Completed(Status::WrFlush) => &mut self.flushed,
            Completed(_) => &mut self.failed,
            Unrouted => &mut self.unrouted,
            TakenBack => &mut self.undone,
            PayloadMissing => &mut self.hidden,
            Drained => &mut self.drained,
            CarriedOut => &mut self.locals,
            Reset => &mut self.resets,
            Ended { dropped, again } => {
                self.dropped += dropped;
                self.revived += again;
                return;
            }
        };
        *counter += 1;
    }

    fn observe_verdict(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Dropped(DropReason::Duplicate) => self.duplicates += 1,
            Verdict::Dropped(DropReason::NotPresent) => self.missing += 1,
            _ => {}
        }
    }

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
