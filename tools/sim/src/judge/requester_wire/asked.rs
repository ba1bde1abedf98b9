// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: whether the requester asks for acknowledgements, and which packets its
//! device could not send.

use super::Watch;
use crate::check::{ensure, Violation};
use crate::model::flow::Flow;
use crate::model::op::Op;

impl Watch {
    /// The device could not send a request packet: the one before it may have to ask for an ACK
    /// now.
    pub fn packet_given_back(&mut self, packet: u64) {
        self.given_back = Some(packet);
    }

    /// A packet that was sent comes again: after a reason to go back, or to ask for an
    /// acknowledgement. Only the last packet does the latter, or the one before a packet that the
    /// device could not send; those after it come again, too.
    pub(super) fn check_again(&mut self, packet: u64, ack_req: bool) -> Result<(), Violation> {
        let high = self.sent.len() as u64;
        let last = packet + 1 == high && !self.asked || self.given_back == Some(packet + 1);
        ensure!(
            self.may_resend || last && ack_req,
            "packet {packet} of {high} sent again for no reason"
        );
        self.check_missing(packet)?;
        self.may_resend = true;
        Ok(())
    }

    /// The device took a request packet back, which will be sent later; of a READ it asks for `len`
    /// bytes.
    pub fn packet_taken_back(
        &mut self,
        flow: &Flow,
        packet: u64,
        ack_req: bool,
        len: u32,
    ) -> Result<(), Violation> {
        if let Some(index) = flow.op_at(packet) {
            let request = &flow.ops[index];
            let end = self.asked_end(flow, request, packet, len);
            if self.is_gap_request(request, packet, end) {
                self.undone += 1;
                return self.check_gap(request, packet, end);
            }
        }
        if packet < self.sent.len() as u64 {
            self.check_again(packet, ack_req)?;
            // The last packet in flight is the one before it now.
            self.asked |= self.asked_end >= packet;
        }
        // One that was to be sent alone leaves those after it where they are.
        if packet != self.una || self.reported.is_none() {
            self.front = self.front.min(packet);
        }
        self.packet_given_back(packet);
        self.taken_back = self.taken_back.max(packet + 1);
        self.undone += 1;
        Ok(())
    }

    /// Whether the device took back a packet of the request. For the protocol it has begun, even if
    /// nothing of it was ever sent.
    pub fn was_taken_back(&self, request: &Op) -> bool {
        request.first < self.taken_back
    }

    /// The requester has nothing to send now: it must have asked for a response. The memory of the
    /// requests from packet `gone` on may be gone: none of these can be sent again to ask, but the
    /// requester must have asked about those before.
    pub fn check_asked(&self, gone: Option<u64>) -> Result<(), Violation> {
        let end = (self.sent.len() as u64).min(gone.unwrap_or(u64::MAX));
        let waiting = self.una < end;
        // While a packet is sent again alone the answer to that comes first.
        let held = self.missed > 0 || !self.rnr.is_empty() || self.reported.is_some();
        let before = gone.is_some_and(|gone| self.asked_end >= gone);
        let fine = !waiting || self.asked || before || held;
        ensure!(fine, "last packet in flight without AckReq");
        Ok(())
    }
}
