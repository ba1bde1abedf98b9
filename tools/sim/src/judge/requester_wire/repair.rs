// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: packets that the responder reports as missing. The requester goes back to
//! such a packet, or sends it alone and goes on with new ones. Either way that packet is the next
//! one that is sent again.

use super::Watch;
use crate::check::{ensure, Violation};

impl Watch {
    /// The requester has heeded a NAK that reports `packet` as missing. It has to send less from
    /// now on, once in a round trip.
    pub(super) fn note_missing(&mut self, packet: u64) {
        self.missing = Some(packet);
        self.reported = Some(packet);
        if self.is_new_loss(packet) {
            self.round_end = self.front;
            self.cwnd.on_loss();
        } else {
            self.cwnd.on_known_loss();
        }
    }

    /// The timer has gone off: for a retry, or a probe.
    pub fn timed_out(&mut self) {
        self.may_resend = true;
        self.gaps.may_forget();
        self.nak_heeded = None;
        self.may_go_back();
    }

    /// Whether a report of `packet` as missing is one of a loss that the requester has to heed.
    pub(super) fn is_new_loss(&self, packet: u64) -> bool {
        packet >= self.round_end && !self.is_next(packet)
    }

    /// The requester may go back for another reason than a loss that was reported.
    pub(super) fn may_go_back(&mut self) {
        self.cwnd.may_go_back();
        self.missing = None;
        self.waits = true;
    }

    /// Whether the requester may have gone back, and be about to send `packet`: a NAK for it says
    /// nothing new.
    pub(super) fn is_next(&self, packet: u64) -> bool {
        self.waits || packet >= self.front || self.last.is_some_and(|last| last + 1 == packet)
    }

    /// The missing packet is the next one that is sent again (IBTA 9.7.5.2, 9.9.2.1).
    pub(super) fn check_missing(&self, packet: u64) -> Result<(), Violation> {
        let missing = self.missing.unwrap_or(packet);
        ensure!(
            "IBTA 9.7.5.2, 9.9.2.1",
            packet == missing,
            "packet {packet} sent again, and {missing} is missing"
        );
        Ok(())
    }

    /// Packets from `packet` to `end` are sent. If the first is one that was sent since the
    /// requester went back last, and neither the missing one nor the latest, which asks for an
    /// acknowledgement, the requester goes back again, and a further loss is a new one.
    pub(super) fn note_order(&mut self, packet: u64, end: u64) {
        if packet < self.front && packet != self.una && packet + 1 != self.front {
            self.round_end = 0;
            self.front = end;
        }
        self.front = self.front.max(end);
    }

    /// An ACK has come. If it is of the missing packet alone, the peer keeps nothing: the requester
    /// may go back to the next one.
    pub(super) fn check_repair(&mut self) {
        let alone = self.reported.take_if(|packet| *packet < self.una);
        self.may_resend |= alone.is_some_and(|packet| packet + 1 == self.una);
    }
}
