// SPDX-License-Identifier: GPL-2.0

//! The judge that counts: what the runs of a profile have met, as numbers. A profile that meets
//! nothing of what it is for tests nothing.

pub mod uc;

use crate::api::{DropReason, Status, Verdict};

/// What ends a key of a fast-registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    LocalInv,
    Read,
    Send,
}

/// Something that happens in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// An event of the run is processed.
    Event,
    /// A frame is handed to the network.
    Sent,
    /// A frame that is no packet, or has a wrong ICRC, is dropped.
    Unreadable,
    /// So many packets are taken at a time.
    Taken(u16),
    /// The verdict of a QP on packets.
    Verdict(Verdict),
    /// A request is posted.
    Posted,
    /// A request completes.
    Completed(Status),
    /// The timer goes off when it is due.
    TimedOut,
    /// A packet could not be sent.
    TakenBack,
    /// That was so because its payload could not be read.
    PayloadMissing,
    /// A receive is taken again by the packet that took it when a page was missing.
    ReceiveAgain,
    /// An RNR NAK is sent.
    RnrNak,
    /// A send queue is drained.
    Drained,
    /// Memory is deregistered.
    Deregistered,
    /// A connection is used again.
    Reused,
    /// A packet is forged.
    Forged,
    /// A datagram is sent.
    Datagram,
    /// A local operation is carried out.
    CarriedOut,
    /// So many requests of a QP had keys of fast-registered regions, some of which had ended.
    KeysUsed { all: u64, stale: u64 },
    /// Such a key ends.
    KeyEnded(KeyEnd),
    /// Something that happens to a UC QP.
    Uc(uc::Observation),
}

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
    /// Local operations carried out; requests posted with a fast-registered key, and with one that
    /// has ended.
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
    /// Counts what happens.
    pub fn observe(&mut self, observation: Observation) {
        use Observation::*;
        let counter = match observation {
            Event => &mut self.events,
            Sent => &mut self.packets,
            Unreadable => &mut self.dropped,
            Taken(count) => {
                self.together += u64::from(count) - 1;
                return;
            }
            Verdict(verdict) => return self.observe_verdict(verdict),
            Posted => &mut self.requests,
            Completed(Status::Success) => &mut self.succeeded,
            Completed(Status::WrFlush) => &mut self.flushed,
            Completed(Status::RetryExc) => &mut self.retry_exceeded,
            Completed(Status::RnrRetryExc) => &mut self.rnr_exceeded,
            Completed(_) => &mut self.failed,
            TimedOut => &mut self.timeouts,
            TakenBack => &mut self.undone,
            PayloadMissing => &mut self.hidden,
            ReceiveAgain => &mut self.retaken,
            RnrNak => &mut self.rnr_naks,
            Drained => &mut self.drained,
            Deregistered => &mut self.deregistered,
            Reused => &mut self.reborn,
            Forged => &mut self.forged,
            Datagram => &mut self.datagrams,
            CarriedOut => &mut self.locals,
            KeysUsed { all, stale } => {
                self.leased += all;
                self.stale += stale;
                return;
            }
            KeyEnded(KeyEnd::LocalInv) => &mut self.ended[0],
            KeyEnded(KeyEnd::Read) => &mut self.ended[1],
            KeyEnded(KeyEnd::Send) => &mut self.ended[2],
            Uc(observation) => return self.uc.observe(observation),
        };
        *counter += 1;
    }

    fn observe_verdict(&mut self, verdict: Verdict) {
        let Verdict::Dropped(reason) = verdict else {
            return;
        };
        self.dropped += 1;
        self.refused += u64::from(reason == DropReason::Refused);
        self.missing += u64::from(reason == DropReason::NotPresent);
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_observation_is_counted() {
        let mut stats = Stats::default();
        let dropped = |reason| Observation::Verdict(Verdict::Dropped(reason));
        for observation in [
            Observation::Completed(Status::Success),
            Observation::Completed(Status::RemAccess),
            Observation::Completed(Status::WrFlush),
            Observation::Taken(1),
            Observation::Taken(3),
            Observation::Verdict(Verdict::Accepted),
            dropped(DropReason::Refused),
            dropped(DropReason::NotPresent),
            Observation::Unreadable,
            Observation::KeyEnded(KeyEnd::Read),
            Observation::Uc(uc::Observation::Posted),
        ] {
            stats.observe(observation);
        }
        let mut expected = Stats {
            succeeded: 1,
            failed: 1,
            flushed: 1,
            together: 2,
            dropped: 3,
            refused: 1,
            missing: 1,
            ended: [0, 1, 0],
            ..Stats::default()
        };
        expected.uc.posted = 1;
        assert_eq!(stats, expected);
        let mut twice = stats;
        twice.add(&stats);
        assert_eq!((twice.dropped, twice.ended[1], twice.uc.posted), (6, 2, 2));
    }
}
