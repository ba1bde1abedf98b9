// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: the responses that a requester keeps although an earlier one is missing,
//! and its requests for those that are missing.
//!
//! A gap request asks for READ responses that the requester misses, within one earlier READ request
//! (IBTA 9.7.5.1.3, 9.7.6.1). It begins with the oldest packet that is missing, so that gaps are
//! asked for in ascending order; it does not ask for what was kept behind its last missing packet;
//! and it is sent when the response that it is about is over.

use super::Watch;
use crate::check::{ensure, Violation};
use crate::judge::decode::{op, Seen};
use crate::model::flow::Flow;
use crate::model::op::Op;
use crate::model::verb::Verb;

/// Responses are kept up to so many PSNs behind the oldest missing one.
const KEPT_SPAN: u64 = 1024;

impl Watch {
    /// The end of a request for READ responses from packet `packet` on, which has `len` bytes, as
    /// far as it may be asked for.
    pub(super) fn asked_end(&self, flow: &Flow, request: &Op, packet: u64, len: u32) -> u64 {
        let whole = request.first + request.chunk_end(packet - request.first);
        let again = packet < self.sent.len() as u64;
        let packets = u64::from(len.div_ceil(flow.pmtu).max(1));
        match again && request.verb == Verb::Read {
            true => whole.min(packet + packets),
            false => whole,
        }
    }

    /// Whether a request for packets from `packet` to `end` is one for a gap, and not one of a
    /// requester that has gone back.
    pub(super) fn is_gap_request(&self, request: &Op, packet: u64, end: u64) -> bool {
        let whole = request.first + request.chunk_end(packet - request.first);
        let again = packet < self.sent.len() as u64 && request.verb == Verb::Read;
        let closes = !self.may_resend && packet == self.una && self.gaps.shown >= whole;
        again && (end < whole || closes)
    }

    /// For sabotage: whether a READ request for `len` bytes from `packet` on is one for a gap that
    /// ends within its chunk, and then whether it begins within.
    pub fn asks_for_gap(&self, flow: &Flow, packet: u64, len: u32) -> Option<bool> {
        let request = &flow.ops[flow.op_at(packet)?];
        let k = packet - request.first;
        let end = self.asked_end(flow, request, packet, len);
        // The chunk's last packet is shorter than the others.
        let inside = end + 1 < request.first + request.chunk_end(k);
        inside.then_some(!request.starts_chunk(k))
    }

    /// For sabotage: the missing packet, if that is in the middle of a chunk of a READ and before
    /// `packet`, which comes from a READ.
    pub fn missing_before(&self, flow: &Flow, packet: u64) -> Option<u64> {
        let request = &flow.ops[flow.op_at(self.una)?];
        let k = self.una - request.first;
        let middle = !request.starts_chunk(k) && k + 1 < request.chunk_end(k);
        (request.verb == Verb::Read && middle && packet > self.una).then_some(self.una)
    }

    /// A gap request is sent, or was to be.
    pub(super) fn check_gap(
        &mut self,
        request: &Op,
        packet: u64,
        end: u64,
    ) -> Result<(), Violation> {
        let whole = request.first + request.chunk_end(packet - request.first);
        ensure!(
            "IBTA 9.7.6.1, 9.9.2.1",
            packet == self.una,
            "asks for a gap at {packet}, the oldest missing packet is {}",
            self.una
        );
        ensure!(
            "design: gap requests",
            self.gaps.must_lack(end - 1),
            "asks for packet {} again, which it has kept",
            end - 1
        );
        ensure!(
            "design: gap requests",
            self.gaps.shown >= whole,
            "asks for a gap at {packet} before the response is over"
        );
        self.gaps.asked += 1;
        // That is a retry, and none of the ACK timeout.
        self.signs += 1;
        self.gaps.ends.insert(end);
        if self.gaps.is_new_loss(self.una) {
            self.lose_response();
        }
        Ok(())
    }

    /// The requester notices the first lost response of a round trip.
    pub(super) fn lose_response(&mut self) {
        self.cwnd.on_response_loss();
        self.gaps.round_end = self.taken_back.max(self.sent.len() as u64);
    }

    /// The requester has taken the response packet `packet`, and says now that it misses `una`.
    pub(super) fn take_response(
        &mut self,
        now: u64,
        flow: &Flow,
        packet: u64,
        una: u64,
    ) -> Result<(), Violation> {
        if packet > self.una {
            return self.keep(flow, packet, una);
        }
        ensure!(
            packet == self.una,
            "takes answer {packet}, not {}",
            self.una
        );
        self.step(flow);
        while self.una < una {
            if self.gaps.take(self.una) {
                self.step(flow);
                continue;
            }
            let before = self.una;
            self.acknowledge(now, flow, una.min(self.gaps.shown));
            if self.una == before {
                break;
            }
            if self.last.is_some_and(|last| last + 1 < self.una) {
                // It went back, and what it was about to send again had arrived: it begins anew.
                self.gaps.may_forget();
            }
        }
        ensure!(
            self.una >= una,
            "goes on to {una}, and {} is missing",
            self.una
        );
        ensure!(
            self.gaps.must_lack(self.una),
            "has forgotten answer {}",
            self.una
        );
        self.gaps.pass(self.una);
        let missing = flow.op_at(self.una).map(|index| flow.ops[index].verb);
        if self.gaps.shown > self.una && missing != Some(Verb::Read) {
            // The response to an atomic is missing next: the requester goes back for that.
            self.may_resend = true;
            self.gaps.may_forget();
        }
        self.progress(now);
        Ok(())
    }

    /// The requester has dropped a READ response, as it had that already.
    pub fn answer_known(&mut self, flow: &Flow, seen: &Seen) {
        if seen.opcode != op::ACK {
            self.gaps.must_have(flow.packet(seen.psn));
        }
    }

    /// Response packet `una` has arrived.
    fn step(&mut self, flow: &Flow) {
        let op = flow.op_at(self.una).map(|index| &flow.ops[index]);
        if let Some(op) = op {
            let k = self.una - op.first;
            if op.chunk_end(k) == k + 1 {
                let start = (0..=k).rev().find(|at| op.starts_chunk(*at));
                self.cwnd.on_read_response(k + 1 - start.unwrap_or(0));
            }
        }
        self.una += 1;
    }

    /// The requester has kept a response behind the one that is missing.
    fn keep(&mut self, flow: &Flow, packet: u64, goes_on: u64) -> Result<(), Violation> {
        let is_read = |packet| {
            let op = flow.op_at(packet).map(|index| flow.ops[index].verb);
            op == Some(Verb::Read)
        };
        let una = self.una;
        let may = is_read(una) && is_read(packet) && packet < una + KEPT_SPAN;
        ensure!(may, "takes answer {packet}, not {una}");
        ensure!(
            goes_on == una,
            "goes on to {goes_on} with answer {packet}, and {una} is missing"
        );
        ensure!(
            self.gaps.keep(packet),
            "takes answer {packet} again, behind {una}"
        );
        self.gaps.show(packet + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused, Wire};
    use super::*;
    use crate::judge::cwnd::reduced;

    /// READs of four and of two packets that were asked for; the responses to packets 0, 2 and 3 of
    /// them have come.
    fn gap_at_one() -> Wire {
        let mut wire = Wire::new(&[(Verb::Read, 1024), (Verb::Read, 512)]);
        wire.send_packet(0).unwrap();
        wire.send_packet(4).unwrap();
        take(&mut wire, 0, 1).unwrap();
        take(&mut wire, 2, 1).unwrap();
        refused(wire.send(&gap(&wire, 1, 1)), "before the response is over");
        take(&mut wire, 3, 1).unwrap();
        wire
    }

    /// The response packet `packet` comes, and the requester says that it misses `una` now.
    fn take(wire: &mut Wire, packet: u64, una: u64) -> Result<(), Violation> {
        wire.watch.take_response(0, &wire.flow, packet, una)
    }

    /// A request for so many packets from `packet` on.
    fn gap(wire: &Wire, packet: u64, packets: u32) -> Seen<'static> {
        let mut seen = wire.request(packet);
        let (va, rkey, _) = seen.reth.unwrap();
        seen.reth = Some((va, rkey, packets * 256));
        seen
    }

    #[test]
    fn a_gap_is_asked_for_and_closed() {
        let mut wire = gap_at_one();
        wire.send(&gap(&wire, 1, 1)).unwrap();
        assert!(wire.watch.gaps.may_end(2) && !wire.watch.gaps.may_end(3));
        take(&mut wire, 4, 1).unwrap();
        take(&mut wire, 1, 5).unwrap();
        assert_eq!((wire.watch.una, wire.watch.gaps.kept()), (5, 0));
    }

    #[test]
    fn wrong_gap_requests() {
        let mut wire = gap_at_one();
        refused(
            wire.send(&gap(&wire, 0, 1)),
            "the oldest missing packet is 1",
        );
        refused(
            wire.send(&gap(&wire, 2, 1)),
            "the oldest missing packet is 1",
        );
        refused(wire.send(&gap(&wire, 1, 2)), "which it has kept");
        refused(
            wire.send(&gap(&wire, 4, 1)),
            "the oldest missing packet is 1",
        );
        let mut odd = gap(&wire, 1, 1);
        odd.reth = odd.reth.map(|(va, rkey, len)| (va, rkey, len - 1));
        refused(wire.send(&odd), "expected");
    }

    #[test]
    fn nothing_is_filled_that_did_not_come() {
        refused(take(&mut gap_at_one(), 4, 2), "goes on to 2 with answer 4");
        refused(
            take(&mut gap_at_one(), 1, 5),
            "goes on to 5, and 4 is missing",
        );
        refused(take(&mut gap_at_one(), 1, 2), "has forgotten answer 2");
        refused(take(&mut gap_at_one(), 3, 1), "takes answer 3 again");
        refused(take(&mut gap_at_one(), 0, 1), "takes answer 0, not 1");
        let mut wire = gap_at_one();
        wire.watch.timed_out();
        take(&mut wire, 1, 2).unwrap();
    }

    #[test]
    fn a_round_trip_has_one_loss() {
        let mut wire = gap_at_one();
        let before = wire.watch.cwnd.read_window();
        wire.send(&gap(&wire, 1, 1)).unwrap();
        let less = wire.watch.cwnd.read_window();
        assert_eq!(less, reduced(before));
        wire.watch.cwnd.on_ack(1, false);
        wire.send(&gap(&wire, 1, 1)).unwrap();
        assert_eq!(wire.watch.cwnd.read_window(), less);
    }

    /// Two READs of one packet with a SEND after each: all were sent, and no response has come.
    fn reads_between_sends() -> Wire {
        let both = [(Verb::Read, 256), (Verb::Send, 10)];
        let mut wire = Wire::new(&[both, both].concat());
        for packet in 0..4 {
            wire.send_packet(packet).unwrap();
        }
        wire
    }

    /// The ACK of `packet` shows a gap; gives the READ window before and after.
    fn shown_by_ack(wire: &mut Wire, packet: u64) -> (u64, u64) {
        let ack = wire.answer(op::ACK, packet, 0x1f, 0);
        let before = wire.watch.cwnd.read_window();
        wire.watch.gap_noticed(0, &wire.flow, &ack);
        (before, wire.watch.cwnd.read_window())
    }

    #[test]
    fn acks_show_one_loss_in_a_round_trip() {
        let mut wire = reads_between_sends();
        let (before, after) = shown_by_ack(&mut wire, 1);
        assert_eq!(after, reduced(before));
        wire.send_packet(0).unwrap();
        wire.send_packet(1).unwrap();
        wire.send_packet(2).unwrap();
        take(&mut wire, 0, 1).unwrap();
        let (before, after) = shown_by_ack(&mut wire, 3);
        assert_eq!(after, before);
    }

    #[test]
    fn what_was_not_sent_again_is_not_lost() {
        let mut wire = reads_between_sends();
        wire.watch.timed_out();
        wire.send_packet(0).unwrap();
        take(&mut wire, 0, 1).unwrap();
        wire.send_packet(1).unwrap();
        let unsent = wire.watch.packet_taken_back(&wire.flow, 2, true, 256);
        unsent.unwrap();
        let (before, after) = shown_by_ack(&mut wire, 3);
        assert_eq!(after, before);
    }

    #[test]
    fn a_gap_that_an_ack_shows_is_asked_for_once_more() {
        let mut wire = reads_between_sends();
        shown_by_ack(&mut wire, 1);
        // The retry, the probes, and once for the gap alone.
        for _ in 0..5 {
            wire.send_packet(0).unwrap();
        }
        refused(wire.send_packet(0), "sent 7 times without progress");
    }
}
