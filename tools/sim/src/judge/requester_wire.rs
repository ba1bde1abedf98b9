// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: looks at every packet of a flow, in both directions, as it is sent, and
//! says what is wrong with it.

mod asked;
mod gaps;
mod local;
mod reads;
mod repair;
mod responses;

use crate::check::{ensure, Violation};
use crate::host::qp::Qp;
use crate::judge::cwnd::{reduced, Cwnd};
use crate::judge::decode::{op, Seen, NAK_SEQUENCE};
use crate::judge::expect::check_request;
use crate::judge::gaps::Gaps;
use crate::judge::kept::Kept;
use crate::judge::responder_wire::Answers;
use crate::model::flow::Flow;
use crate::model::op::Op;
use oxe_proto::transport::time::{ack_timeout, rnr_delay};
use std::collections::{BTreeMap, BTreeSet};

/// How often a requester without responses may send again without counting a retry.
const PROBES: u32 = 3;

/// The judge's record of a flow on the wire. Packets are counted from the flow's first PSN.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// How often each packet was sent. A READ request counts for all packets of its response.
    sent: Vec<u32>,
    /// The oldest packet without an acknowledgement or response.
    una: u64,
    /// The packet that the responder expects.
    pub accepted: u64,
    /// RNR NAKs that reached the requester.
    rnr: BTreeMap<u64, u32>,
    /// READ chunks and atomics sent; the last response packets that reached the requester, and how
    /// many these are.
    started: usize,
    answered: BTreeSet<u64>,
    finished: usize,
    /// The last request sent asks for an answer; one past the newest packet that asked.
    asked: bool,
    asked_end: u64,
    /// The last request packet sent.
    last: Option<u64>,
    /// The packet that the device has given back since.
    given_back: Option<u64>,
    /// One past the newest packet that the device took back because it could not be sent.
    taken_back: u64,
    /// How often it took one back since the last progress.
    undone: u32,
    /// There was a reason to go back, and the requester has not caught up yet.
    may_resend: bool,
    /// An RNR NAK forbids requests before this time.
    wait_until: u64,
    /// Counts progress: new acknowledgements.
    epoch: u64,
    /// For each packet, how often it was sent since the last progress, and when that was.
    rounds: Vec<(u64, u32)>,
    /// Packets of the flow, requests and answers, that the network harmed, and how many of them
    /// before the last answer that was taken.
    harmed: u64,
    harmed_before: u64,
    /// RNR NAKs that the requester has heeded since the last progress.
    rnr_heeded: u32,
    /// Responses since the last progress for which the requester had no page.
    missed: u32,
    /// A NAK for a sequence error that the requester has heeded since progress, timeout or RNR NAK.
    nak_heeded: Option<u64>,
    /// How much may be in flight. What it was told of: the packets before `counted`. A round trip
    /// ends when those before `window_round` are acknowledged.
    cwnd: Cwnd,
    counted: u64,
    window_round: u64,
    /// The time of the last progress, and how many signs of a loss the requester has heeded since.
    progress_at: u64,
    signs: u32,
    /// The responses behind a gap.
    gaps: Gaps,
    /// The packet that the responder has reported as missing: the next one that is sent again.
    missing: Option<u64>,
    /// The latest packet that was reported as missing, until it is acknowledged.
    reported: Option<u64>,
    /// Reports of packets before this one are of one round trip, until the requester goes back.
    round_end: u64,
    /// One past the furthest packet that was sent since the requester went back.
    front: u64,
    /// It may have gone back, and has sent nothing since.
    waits: bool,
    /// The responses that the responder owes.
    pub answers: Answers,
    /// The request packets that it keeps.
    pub kept: Kept,
}

/// The limits that the requester was given.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_rd_atomic: u32,
    pub retry_cnt: u32,
    pub rnr_retry: u32,
    /// The requester is the foreign peer.
    pub foreign: bool,
}

impl Limits {
    /// The limits of this QP.
    pub fn of(q: &Qp) -> Limits {
        Limits {
            max_rd_atomic: q.setup.max_rd_atomic.into(),
            retry_cnt: q.setup.retry_cnt.into(),
            rnr_retry: q.setup.rnr_retry.into(),
            foreign: q.conn.is_foreign(),
        }
    }
}

impl Watch {
    /// That of a requester that is controlled by delay, or else by CUBIC.
    pub fn new(by_delay: bool) -> Watch {
        let cwnd = match by_delay {
            true => Cwnd::by_delay(),
            false => Cwnd::default(),
        };
        Watch {
            cwnd,
            ..Watch::default()
        }
    }

    /// A request leaves its requester, which may have `max_rd_atomic` READs and atomics under way.
    /// It does not leave before the time of an RNR NAK is over (IBTA 9.7.5.2.8).
    pub fn request_sent(
        &mut self,
        now: u64,
        flow: &Flow,
        limits: Limits,
        seen: &Seen,
    ) -> Result<(), Violation> {
        let wait = self.wait_until.saturating_sub(now);
        ensure!(
            "IBTA 9.7.5.2.8",
            wait == 0,
            "request sent {wait} ns too early after an RNR NAK"
        );
        let packet = flow.packet(seen.psn);
        let high = self.sent.len() as u64;
        ensure!(
            "IBTA 9.7.2",
            packet <= high,
            "request {packet} sent before {high}"
        );
        let index = flow
            .op_at(packet)
            .ok_or("request with a PSN of nothing posted")?;
        let request = &flow.ops[index];
        let k = packet - request.first;
        let covered = self.asked_end(flow, request, packet, seen.reth.map_or(0, |r| r.2));
        check_request(flow, request, k, covered - request.first, seen)?;
        if limits.foreign {
            self.count_sent(packet, covered);
            return Ok(());
        }
        if packet == high {
            self.first_time(flow, index, limits.max_rd_atomic)?;
        } else if self.is_gap_request(request, packet, covered) {
            self.check_gap(request, packet, covered)?;
            self.count_sent(packet, covered);
            return self.count_round(packet, limits);
        } else {
            self.check_again(packet, seen.ack_req)?;
            self.missing = None;
        }
        let probes = packet + 1 == self.front && seen.ack_req;
        self.note_order(packet, covered);
        self.waits = false;
        let ahead = flow.requests_before(packet) + 1;
        let in_flight = ahead.saturating_sub(flow.requests_before(self.una));
        let most = self.cwnd.cwnd();
        ensure!(
            "design: congestion window",
            in_flight <= most || probes,
            "{in_flight} requests in flight, {most} allowed"
        );
        self.check_read_window(flow, request, packet, covered)?;
        self.given_back = None;
        self.may_resend &= covered < high;
        self.count_sent(packet, covered);
        // The last packet once more, to ask for an ACK, is no retry.
        let repeated = self.last == Some(packet) && !self.asked;
        self.last = Some(packet);
        self.asked = seen.ack_req || request.verb.is_read_like();
        if self.asked {
            self.asked_end = self.asked_end.max(covered);
        }
        if repeated {
            return Ok(());
        }
        self.count_round(packet, limits)
    }

    /// Packets from `packet` to `covered` were sent, or asked for.
    fn count_sent(&mut self, packet: u64, covered: u64) {
        let high = self.sent.len().max(covered as usize);
        self.sent.resize(high, 0);
        for count in &mut self.sent[packet as usize..covered as usize] {
            *count += 1;
        }
    }

    /// The first missing response packet of the oldest READ or atomic without a response, if that
    /// is before `end`.
    fn unanswered(&self, flow: &Flow, end: u64) -> Option<u64> {
        let from = flow.op_at(self.una)?;
        let mut ops = flow.ops[from..].iter().take_while(|op| op.first < end);
        let op = ops.find(|op| op.verb.is_read_like())?;
        Some(op.first.max(self.una)).filter(|packet| *packet < end)
    }

    /// The missing response packet, if `seen` shows the requester that an earlier response is
    /// missing. For sabotage: only where the requester must heed the gap and has much in flight.
    pub fn gap_before(&self, flow: &Flow, seen: &Seen) -> Option<u64> {
        let end = flow.packet(seen.psn) + u64::from(seen.is_ack());
        let much = self.sent.len() as u64 > self.una + reduced(self.cwnd.read_window());
        let worth = self.cwnd.heeds_loss() && much && end <= self.sent.len() as u64;
        self.unanswered(flow, end).filter(|_| worth)
    }

    /// Whether a NAK for a sequence error should make the requester send less than it has in
    /// flight.
    pub fn is_wide(&self, flow: &Flow, seen: &Seen) -> bool {
        let sent = flow.requests_before(self.sent.len() as u64);
        let in_flight = sent - flow.requests_before(self.una);
        in_flight > reduced(self.cwnd.cwnd()) + 8 && self.is_new_loss(flow.packet(seen.psn))
    }

    /// No packet is sent more often without progress than the retry counters allow (IBTA 9.9.2.1).
    fn count_round(&mut self, packet: u64, limits: Limits) -> Result<(), Violation> {
        self.rounds.resize(self.sent.len(), (0, 0));
        let Some(round) = self.rounds.get_mut(packet as usize) else {
            return Ok(());
        };
        if round.0 != self.epoch {
            *round = (self.epoch, 0);
        }
        round.1 += 1;
        let most = 1 + limits.retry_cnt + self.rnr_heeded + self.missed + PROBES + self.undone;
        let most = most + self.gaps.asked;
        ensure!(
            "IBTA 9.9.2.1",
            round.1 <= most,
            "packet {packet} sent {} times without progress",
            round.1
        );
        Ok(())
    }

    /// A request begins, or goes on, where nothing was sent before. A fenced one waits for READs
    /// and atomics (IBTA 10.8.3.3), of which no more are under way than allowed (IBTA 9.7.7.2.2).
    fn first_time(&mut self, flow: &Flow, index: usize, max_rd: u32) -> Result<(), Violation> {
        let out = self.started - self.finished;
        let request = &flow.ops[index];
        if self.sent.len() as u64 == request.first && request.fence {
            ensure!(
                "IBTA 10.8.3.3",
                out == 0,
                "fenced request {index} sent with {out} reads under way"
            );
        }
        if request.verb.is_read_like() {
            ensure!(
                "IBTA 9.7.7.2.2",
                (out as u32) < max_rd,
                "{} reads under way, {max_rd} allowed",
                out + 1
            );
            self.started += 1;
        }
        Ok(())
    }

    /// The responder has executed the request packet that it was waiting for.
    pub fn request_executed(&mut self, now: u64, flow: &Flow, seen: &Seen) {
        let packet = flow.packet(seen.psn);
        if packet != self.accepted {
            return;
        }
        if let Some(index) = flow.op_at(packet) {
            let request = &flow.ops[index];
            self.accepted = request.first + request.chunk_end(packet - request.first);
            let answer = (packet, self.accepted);
            let answer = request.verb.is_read_like().then_some(answer);
            self.answers.accepted(answer);
            if seen.ack_req && !request.verb.is_read_like() {
                self.answers.asked(now, self.accepted);
            }
        }
    }

    /// A response reaches the requester.
    pub fn response_delivered(&mut self, flow: &Flow, seen: &Seen) {
        let packet = flow.packet(seen.psn);
        if packet >= self.sent.len() as u64 {
            return;
        }
        if seen.opcode == op::ACK && seen.aeth.is_some_and(|(s, _)| s >> 5 == 1) {
            *self.rnr.entry(packet).or_default() += 1;
        }
        let ends = matches!(seen.opcode, op::READ_LAST | op::READ_ONLY | op::ATOMIC_ACK);
        let last = |op: &Op| op.first + op.chunk_end(packet - op.first) == packet + 1;
        let index = flow.op_at(packet).filter(|_| ends);
        if index.is_some_and(|index| last(&flow.ops[index])) && self.answered.insert(packet) {
            self.finished += 1;
        }
    }

    /// A response acknowledges every packet before `end`, up to a READ or atomic without a
    /// response.
    fn acknowledge(&mut self, now: u64, flow: &Flow, end: u64) {
        let before = self.una;
        while self.una < end {
            let op = flow.op_at(self.una).map(|index| &flow.ops[index]);
            let Some(op) = op.filter(|op| !op.verb.is_read_like()) else {
                break;
            };
            self.una = (op.first + op.span).min(end);
        }
        if self.una != before {
            self.progress(now);
        }
    }

    fn progress(&mut self, now: u64) {
        self.epoch += 1;
        self.progress_at = now;
        self.signs = 0;
        self.rnr_heeded = 0;
        self.missed = 0;
        self.undone = 0;
        self.gaps.asked = 0;
        self.nak_heeded = None;
        self.missing = None;
        self.harmed_before = self.harmed;
        self.widen();
    }

    /// The windows grow with what was acknowledged. A requester that may have gone back counts a
    /// round trip from there.
    fn widen(&mut self) {
        let ends_round = self.una >= self.window_round;
        if ends_round {
            self.window_round = if self.waits { self.una } else { self.front };
        }
        let packets = self.una.saturating_sub(self.counted);
        self.counted = self.una;
        self.cwnd.on_ack(packets, ends_round);
    }

    /// The network has harmed so many packets.
    pub fn packets_harmed(&mut self, count: u64) {
        self.harmed += count;
    }

    /// How many packets it has harmed since the requester took a response.
    pub fn harm(&self) -> u64 {
        self.harmed - self.harmed_before
    }

    /// The requester has heeded a response that was delivered at `now`, and did not fail for it. It
    /// says that `una` is the oldest packet that it misses now. It heeds as many RNR NAKs as its
    /// counter allows (IBTA 9.7.5.2.8).
    pub fn answer_heeded(
        &mut self,
        now: u64,
        flow: &Flow,
        limits: Limits,
        seen: &Seen,
        una: u64,
    ) -> Result<(), Violation> {
        let packet = flow.packet(seen.psn);
        self.wait_until = 0;
        let syndrome = seen.aeth.map(|(syndrome, _)| syndrome);
        match syndrome.filter(|_| seen.opcode == op::ACK) {
            Some(rnr) if rnr >> 5 == 1 => {
                self.acknowledge(now, flow, packet);
                self.may_resend = true;
                self.gaps.may_forget();
                self.wait_until = now + rnr_delay(rnr & 0x1f);
                // Packets after the wait may be refused again.
                self.nak_heeded = None;
                self.may_go_back();
                self.rnr_heeded += 1;
                let (n, most) = (self.rnr_heeded, limits.rnr_retry);
                ensure!(
                    "IBTA 9.7.5.2.8",
                    most == 7 || n <= most,
                    "goes on after {n} RNR NAKs, {most} allowed"
                );
            }
            Some(NAK_SEQUENCE) => {
                self.acknowledge(now, flow, packet);
                self.may_resend = true;
                self.gaps.may_forget();
                let again = self.nak_heeded == Some(packet);
                ensure!(!again, "goes back twice for one NAK of {packet}");
                self.nak_heeded = Some(packet);
                self.signs += 1;
                self.note_missing(packet);
            }
            Some(_) => {
                self.acknowledge(now, flow, packet + 1);
                self.check_repair();
            }
            None => {
                self.acknowledge(now, flow, packet);
                self.take_response(now, flow, packet, una)?;
            }
        }
        Ok(())
    }

    /// A response has shown the requester a gap before it. It acknowledges all before the gap. A
    /// requester that was about to go back, or that went back and has not come to the gap, sees no
    /// loss in it: what is missing is not in flight any more.
    pub fn gap_noticed(&mut self, now: u64, flow: &Flow, seen: &Seen) {
        let goes_back = self.waits || self.missing.is_some();
        let positive = seen.aeth.is_some_and(|(syndrome, _)| syndrome >> 5 == 0);
        let whole = seen.opcode == op::ACK && positive;
        let end = flow.packet(seen.psn) + u64::from(whole);
        self.acknowledge(now, flow, end);
        if whole {
            // It may ask for the gap alone first, and go back for the same loss then.
            self.gaps.asked = self.gaps.asked.max(1);
            self.gaps.show(end);
        }
        self.signs += 1;
        self.wait_until = 0;
        self.may_resend = true;
        self.waits = true;
        self.gaps.may_forget();
        if self.gaps.is_new_loss(self.una) && !goes_back && self.una < self.front {
            self.lose_response();
        }
    }

    /// The last answer to a READ or atomic has reached the requester.
    pub fn is_answered(&self, op: &Op) -> bool {
        self.answered.contains(&(op.first + op.span - 1))
    }

    /// The most transmissions of any one packet of the request.
    pub fn transmissions(&self, request: &Op) -> u32 {
        let range = request.first as usize..(request.first + request.span) as usize;
        let counts = range.map(|packet| self.sent.get(packet).copied().unwrap_or(0));
        counts.max().unwrap_or(0)
    }

    /// The most RNR NAKs for any one packet of the request.
    pub fn rnr_naks(&self, request: &Op) -> u32 {
        let range = request.first..request.first + request.span;
        self.rnr.range(range).map(|(_, n)| *n).max().unwrap_or(0)
    }

    /// The requester has given up after so many retries: each for a sign of a loss, or after its
    /// ACK timeout (IBTA 9.7.6.1.3, 9.9.2.1).
    pub fn check_patience(&self, now: u64, timeout: u8, retries: u8) -> Result<(), Violation> {
        // The last sign may have come when no retry was left.
        let waits = u32::from(retries).saturating_sub(self.signs);
        let least = u64::from(waits) * ack_timeout(timeout).unwrap_or(0);
        let waited = now - self.progress_at;
        ensure!(
            "IBTA 9.7.6.1.3, 9.9.2.1",
            waited >= least,
            "gave up after {waited} ns, {waits} ACK timeouts are {least}"
        );
        Ok(())
    }

    /// Whether any packet of the request was sent.
    pub fn has_begun(&self, request: &Op) -> bool {
        (request.first as usize) < self.sent.len()
    }
}

#[cfg(test)]
mod tests;
