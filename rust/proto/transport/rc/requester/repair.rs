// SPDX-License-Identifier: GPL-2.0

//! A lost packet of a SEND or WRITE is sent again alone, to a peer that keeps what came behind it
//! (see `responder/ahead.rs`).
//!
//! A NAK for a PSN sequence error says that a packet is missing and that a later one has come, not
//! what becomes of that (IBTA 9.7.5.2). No field of any packet tells whether the peer keeps it, so
//! the requester tries: it sends the missing packet again, alone, and asks for an acknowledgement.
//!
//! - A NAK or an ACK of more than that packet: the peer has kept what came behind. So it is with
//!   the next loss, which that NAK may tell of at once.
//! - An ACK of that packet alone: the peer has dropped the others. The requester goes back to the
//!   next one at once, and at each of the next 64 losses without a trial, as that costs a round
//!   trip.
//! - Nothing: the packet or its ACK was lost. The tail loss probe or the ACK timeout goes back, as
//!   for a loss of the last packet.
//!
//! Where READs or atomics are outstanding the requester goes back: a responder keeps none of them.

use super::common::message_packet::message_packet;
use super::common::{Attr, DropReason, Instant, RequestQueue, Transmit, Verdict};
use super::cwnd::CongestionControl;
use super::tally::RequesterEvent;
use super::wire::{Psn, Service};
use super::{Cursor, Requester};

impl<C: CongestionControl> Requester<C> {
    /// See [`Connection::keep_requests`](super::super::Connection::keep_requests).
    pub(in super::super) fn repair_alone(&mut self, enabled: bool) {
        self.selective.enable(enabled);
    }

    /// Whether a packet is to be sent again alone, or a gap in READ responses asked for.
    #[inline]
    pub(super) fn resends_alone(&self) -> bool {
        self.kept.is_due() || self.selective.is_due()
    }

    /// `una` has advanced. A round trip in which a packet was lost says nothing of the time that
    /// one takes (RFC 6298 3).
    #[cold]
    pub(super) fn settle_repair(&mut self) {
        self.selective.settle(self.una.psn);
        self.recovery.forget_sample();
    }

    /// An ACK has come. If it is of a repair alone, the peer has dropped the packets behind that.
    #[cold]
    pub(super) fn check_repair(&mut self) {
        if self.selective.take_exact() && self.una.psn != self.cursor.psn {
            self.selective.note_dropped();
            self.go_back();
        }
    }

    /// The responder has reported the packet at `una` as missing (IBTA 9.7.5.2, PSN sequence
    /// error). Goes back, or has that packet sent again alone. It counts as a retry
    /// (IBTA 9.9.2.1), and makes the window smaller once in a round trip.
    #[cold]
    pub(super) fn on_sequence_nak(&mut self, now: Instant, attr: &Attr) -> Verdict {
        // A duplicate NAK, or one that came after a timeout had the same effect.
        if self.recovery.is_repairing() || self.selective.is_repairing() {
            return Verdict::Dropped(DropReason::RepeatedNak);
        }
        self.tally.note(RequesterEvent::SequenceNak);
        let exact = self.selective.take_exact();
        let una = self.una.psn;
        if una == self.cursor.psn {
            // The requester went back, and this packet is about to be sent: the NAK tells no news.
            self.recovery.on_known_loss();
            return Verdict::Accepted;
        }
        if !self.selective.is_known_loss(una, self.cursor.psn) {
            let loss = self.request_loss(now);
            self.recovery.on_loss(loss);
        }
        let behind = self.offset(self.cursor.psn) > 1 && self.in_flight.rd_atomic() == 0;
        if !behind || !self.selective.may_repair(exact) {
            self.retry(attr);
            return Verdict::Accepted;
        }
        if let Err(status) = self.recovery.count_retry(attr) {
            self.fail(status);
            return Verdict::Accepted;
        }
        self.selective.ask(una, exact);
        self.recovery.on_repair();
        Verdict::Accepted
    }

    /// Sends the packet at `una` again alone. If it cannot be sent any more, goes back.
    #[cold]
    pub(super) fn send_repair<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        q: &Q,
    ) -> Option<Transmit> {
        let Cursor { n, psn } = self.una;
        let request = q.get(n).filter(|request| request.local_error.is_none());
        let Some(request) = request else {
            self.go_back();
            return None;
        };
        self.selective.on_sent(psn);
        let index = psn.offset_from(request.first_psn);
        let transmit = message_packet(Service::Rc, request, n, index, 1, true, attr);
        self.tally.on_sent_again(psn, psn.next(), 1, self.max);
        self.recovery.pace(now);
        self.recovery.on_sent(now, attr, psn.next(), false, true);
        Some(transmit)
    }

    /// Takes a repair back; gives whether the packet with `psn` was one.
    #[cold]
    pub(super) fn undo_repair(&mut self, psn: Psn) -> bool {
        if !self.selective.undo(psn) {
            return false;
        }
        self.tally.on_undo(psn, psn.next());
        true
    }
}
