// SPDX-License-Identifier: GPL-2.0

//! The judge that counts, of UC QPs.

use super::counters;
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
    Ended { dropped: u64, late: u64 },
}

counters! {
    /// Statistics of the UC QPs of a run.
    Stats {
        /// Messages posted, arrived, and cut off or refused at the responder.
        posted,
        arrived,
        dropped,
        /// Packets dropped as duplicates, and messages that were taken once more, long after.
        duplicates,
        late_duplicates,
        /// Packets that a QP took at a time with the one before.
        coalesced,
        /// Receives that a dropped message left to the next one.
        receives_reused,
        /// Requests that failed, and that were flushed.
        failed,
        flushed,
        /// Messages lost for want of a route; packets taken back.
        unrouted,
        taken_back,
        /// Send queues drained; QPs reset; local operations carried out.
        drained,
        resets,
        local_operations,
        /// Receives that took a QP to the error state.
        unusable,
        /// Messages with packets of wrong lengths.
        flawed,
        /// Packets dropped because a page was missing.
        pages_missing,
        /// Packets taken back because a page of their payload was missing.
        payloads_missing,
    }
}

impl Stats {
    /// Counts what happens.
    pub fn observe(&mut self, observation: Observation) {
        use Observation::*;
        let counter = match observation {
            Posted => &mut self.posted,
            Flawed => &mut self.flawed,
            Taken(count) => {
                self.coalesced += u64::from(count) - 1;
                return;
            }
            Verdict(verdict) => return self.observe_verdict(verdict),
            Arrived => &mut self.arrived,
            ReceiveAgain => &mut self.receives_reused,
            Unusable => &mut self.unusable,
            Completed(Status::Success) => return,
            Completed(Status::WrFlush) => &mut self.flushed,
            Completed(_) => &mut self.failed,
            Unrouted => &mut self.unrouted,
            TakenBack => &mut self.taken_back,
            PayloadMissing => &mut self.payloads_missing,
            Drained => &mut self.drained,
            CarriedOut => &mut self.local_operations,
            Reset => &mut self.resets,
            Ended { dropped, late } => {
                self.dropped += dropped;
                self.late_duplicates += late;
                return;
            }
        };
        *counter += 1;
    }

    fn observe_verdict(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Dropped(DropReason::Duplicate) => self.duplicates += 1,
            Verdict::Dropped(DropReason::NotPresent) => self.pages_missing += 1,
            _ => {}
        }
    }
}
