// SPDX-License-Identifier: GPL-2.0

//! What happens to a requester besides progress: packets that are sent again, timeouts, NAKs. The
//! owner takes the counts now and then. All of this is off the path of a connection that loses
//! nothing.

use super::wire::{counted, Psn};

counted! {
    /// An event of a requester.
    pub enum RequesterEvent {
        /// A request packet was sent again, whatever for.
        Retransmit = c"retransmits",
        /// A gap in READ responses was asked for alone.
        ReadGap = c"read_gaps",
        /// The ACK timeout expired (IBTA 9.7.6.1.3).
        AckTimeout = c"ack_timeouts",
        /// The responder missed a packet: a NAK, PSN sequence error.
        SequenceNak = c"rcvd_seq_err",
        /// The responder was not ready for a packet: an RNR NAK.
        RnrNak = c"rcvd_rnr_err",
        /// The responder refused an invalid request: a NAK, which ends the connection.
        InvalidRequestNak = c"rcvd_inv_req_err",
        /// The responder refused access to its memory: a NAK, which ends the connection.
        AccessNak = c"rcvd_access_err",
        /// The responder failed for its own reasons: a NAK, which ends the connection.
        OperationalNak = c"rcvd_op_err",
        /// A congestion notification (CNP) has cut the rate (IBTA annex A17.9.3).
        CnpHandled = c"rp_cnp_handled",
    }
}

/// How many kinds of events there are.
const KINDS: usize = RequesterEvent::COUNTERS.len();

/// How often each event happened, in the order of [`RequesterEvent::COUNTERS`].
pub type EventCounts = [u32; KINDS];

/// The latest transmission that began before `max`.
#[derive(Clone, Copy, Debug)]
struct Again {
    psn: Psn,
    end: Psn,
    /// The first PSN that had not been sent before.
    known: Psn,
    /// How many of the packets had been sent before.
    count: u32,
    /// What [`Tally::unsent`] was.
    unsent: Option<Psn>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Tally {
    /// Whether there is anything to be taken.
    any: bool,
    counts: EventCounts,
    again: Option<Again>,
    /// Packets from here on were taken back, and never sent.
    unsent: Option<Psn>,
}

impl Tally {
    /// Nothing happened.
    pub(super) const NEW: Self = Tally {
        any: false,
        counts: [0; KINDS],
        again: None,
        unsent: None,
    };

    /// The counts since they were last taken, if there are any.
    #[inline]
    pub(super) fn take(&mut self) -> Option<EventCounts> {
        if !self.any {
            return None;
        }
        self.any = false;
        Some(core::mem::take(&mut self.counts))
    }

    /// Counts an event.
    #[cold]
    pub(super) fn note(&mut self, event: RequesterEvent) {
        self.add(event, 1);
    }

    fn add(&mut self, event: RequesterEvent, by: u32) {
        if let Some(count) = self.counts.get_mut(event as usize) {
            *count = count.saturating_add(by);
        }
        self.any = true;
    }

    /// `packets` packets with the PSNs from `psn` to `end` are sent, when `max` is one past the
    /// highest PSN of a packet that was made before; `psn` is before it.
    #[cold]
    pub(super) fn on_sent_again(&mut self, psn: Psn, end: Psn, packets: u16, max: Psn) {
        let known = self.unsent.unwrap_or(max);
        let count = distance(psn, known).min(packets.into());
        self.again = Some(Again {
            psn,
            end,
            known,
            count,
            unsent: self.unsent,
        });
        if self.unsent.is_some_and(|from| end.is_after(from)) {
            self.unsent = end.is_before(max).then_some(end);
        }
        if count > 0 {
            self.add(RequesterEvent::Retransmit, count);
        }
    }

    /// The packets from `psn` to `end`, the last ones that were made, are taken back: they are not
    /// sent.
    #[cold]
    pub(super) fn on_undo(&mut self, psn: Psn, end: Psn) {
        let same = |again: &mut Again| again.end == end && !psn.is_before(again.psn);
        let Some(again) = self.again.take_if(same) else {
            self.unsent = Some(psn);
            return;
        };
        let undone = again.count.saturating_sub(distance(again.psn, psn));
        if let Some(count) = self.counts.get_mut(RequesterEvent::Retransmit as usize) {
            *count = count.saturating_sub(undone);
        }
        self.unsent = if !again.known.is_before(end) {
            again.unsent
        } else if again.known.is_after(psn) {
            Some(again.known)
        } else {
            Some(psn)
        };
    }
}

/// How far `to` is behind `from`, or 0.
fn distance(from: Psn, to: Psn) -> u32 {
    u32::try_from(to.distance(from)).unwrap_or(0)
}
