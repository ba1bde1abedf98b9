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
    KeysUsed { all: u64, ended: u64 },
    /// Such a key ends.
    KeyEnded(KeyEnd),
    /// Something that happens to a UC QP.
    Uc(uc::Observation),
}

/// Defines statistics: numbers, perhaps others within, their sums, and the values of all in order.
macro_rules! counters {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }
        $($within:ident: $type:ty)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
            $(pub $within: $type,)?
        }

        impl $name {
            /// Adds another run's.
            pub fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
                $(self.$within.add(&other.$within);)?
            }

            /// The numbers without their names.
            pub fn values(&self) -> Vec<u64> {
                let values = vec![$(self.$field),*];
                $(let values = [values, self.$within.values()].concat();)?
                values
            }
        }
    };
}
use counters;

counters! {
    /// Statistics of a run.
    Stats {
        events,
        packets,
        requests,
        succeeded,
        failed,
        flushed,
        retry_exceeded,
        rnr_exceeded,
        timeouts,
        dropped,
        refused,
        taken_back,
        deregistered,
        drained,
        qps_reused,
        forged,
        datagrams,
        /// Packets that a QP took at a time with the one before.
        coalesced,
        /// Local operations carried out.
        local_operations,
        /// Requests posted with a fast-registered key, and with one that has ended.
        keys_used,
        ended_keys_used,
        /// Keys that a LOCAL_INV, a READ and a SEND have ended.
        ended_by_local_inv,
        ended_by_read,
        ended_by_send,
        /// Packets dropped because a page was missing, and receives that these had taken and that
        /// they have taken again.
        pages_missing,
        receives_resumed,
        /// Packets taken back because a page of their payload was missing.
        payloads_missing,
        rnr_naks,
    }
    uc: uc::Stats
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
                self.coalesced += u64::from(count) - 1;
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
            TakenBack => &mut self.taken_back,
            PayloadMissing => &mut self.payloads_missing,
            ReceiveAgain => &mut self.receives_resumed,
            RnrNak => &mut self.rnr_naks,
            Drained => &mut self.drained,
            Deregistered => &mut self.deregistered,
            Reused => &mut self.qps_reused,
            Forged => &mut self.forged,
            Datagram => &mut self.datagrams,
            CarriedOut => &mut self.local_operations,
            KeysUsed { all, ended } => {
                self.keys_used += all;
                self.ended_keys_used += ended;
                return;
            }
            KeyEnded(KeyEnd::LocalInv) => &mut self.ended_by_local_inv,
            KeyEnded(KeyEnd::Read) => &mut self.ended_by_read,
            KeyEnded(KeyEnd::Send) => &mut self.ended_by_send,
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
        self.pages_missing += u64::from(reason == DropReason::NotPresent);
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
            coalesced: 2,
            dropped: 3,
            refused: 1,
            pages_missing: 1,
            ended_by_read: 1,
            ..Stats::default()
        };
        expected.uc.posted = 1;
        assert_eq!(stats, expected);
        let mut twice = stats;
        twice.add(&stats);
        let (once, sum) = (stats.values(), twice.values());
        assert!(once.iter().zip(sum).all(|(one, two)| 2 * one == two));
        assert_eq!(
            (twice.dropped, twice.ended_by_read, twice.uc.posted),
            (6, 2, 2)
        );
    }
}
