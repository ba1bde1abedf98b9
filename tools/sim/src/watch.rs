// SPDX-License-Identifier: GPL-2.0

//! The oracle on the wire: looks at every packet of a flow, in both directions, as it is sent, and
//! says what is wrong with it.

use crate::decode::{op, Seen};
use crate::model::{Flow, Op, Verb};
use std::collections::BTreeMap;

/// Most request packets without acknowledgement.
pub const WINDOW: u64 = 128;

const ACK_NO_CREDIT: u8 = 0x1f;
const NAK_SEQUENCE: u8 = 0x60;

/// What the wire has seen of a flow. Packets are counted from the flow's first PSN.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// How often each was sent, a READ request counted for all the packets of its answer.
    sent: Vec<u32>,
    /// Everything before was acknowledged by something that reached the requester.
    acked: u64,
    /// What the responder waits for.
    pub accepted: u64,
    /// RNR NAKs that reached the requester.
    rnr: BTreeMap<u64, u32>,
    /// READs and atomics sent, and of these, those whose last answer reached the requester.
    started: usize,
    answered: Vec<bool>,
    finished: usize,
    /// The last request sent asks for an answer.
    asked: bool,
    /// The device has given back a packet since.
    given_back: bool,
    /// There was a reason to go back, and the requester is not where it was yet.
    may_resend: bool,
    /// The responder wants to hear nothing before this moment.
    wait_until: u64,
}

/// Makes an error of a condition that does not hold.
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {
        if !$cond { return Err(format!($($arg)+)); }
    };
}
pub(crate) use ensure;

/// Opcode and position of a packet of a SEND or WRITE.
fn request_opcode(request: &Op, k: u64) -> u8 {
    let (first, last) = (k == 0, k + 1 == request.span);
    let [f, m, l, o] = match request.verb {
        Verb::Send => [op::SEND_FIRST, op::SEND_MIDDLE, op::SEND_LAST, op::SEND_ONLY],
        Verb::SendImm => [op::SEND_FIRST, op::SEND_MIDDLE, op::SEND_LAST_IMM, op::SEND_ONLY_IMM],
        Verb::SendInv => [op::SEND_FIRST, op::SEND_MIDDLE, op::SEND_LAST_INV, op::SEND_ONLY_INV],
        Verb::Write => [op::WRITE_FIRST, op::WRITE_MIDDLE, op::WRITE_LAST, op::WRITE_ONLY],
        Verb::WriteImm => {
            [op::WRITE_FIRST, op::WRITE_MIDDLE, op::WRITE_LAST_IMM, op::WRITE_ONLY_IMM]
        }
        Verb::Read => [op::READ_REQUEST; 4],
        Verb::CompareSwap { .. } => [op::COMPARE_SWAP; 4],
        Verb::FetchAdd { .. } => [op::FETCH_ADD; 4],
    };
    match (first, last) {
        (true, true) => o,
        (true, false) => f,
        (false, true) => l,
        (false, false) => m,
    }
}

/// The packet that must go out as number `k` of the request, but for AckReq, pad and addresses.
fn expected_request(flow: &Flow, request: &Op, k: u64) -> Seen<'static> {
    let (first, last) = (k == 0, k + 1 == request.span);
    let mut seen = Seen {
        opcode: request_opcode(request, k),
        psn: flow.psn(request.first + k),
        ..Seen::default()
    };
    let skip = (k * u64::from(flow.pmtu)) as u32;
    let Op { va, rkey, len, .. } = *request;
    match request.verb {
        // Resumed where the answer broke off.
        Verb::Read => seen.reth = Some((va.wrapping_add(skip.into()), rkey, len - skip)),
        Verb::Write | Verb::WriteImm if first => seen.reth = Some((va, rkey, len)),
        Verb::CompareSwap { compare, swap } => seen.atomic = Some((va, rkey, swap, compare)),
        Verb::FetchAdd { add } => seen.atomic = Some((va, rkey, add, 0)),
        _ => {}
    }
    seen.imm = (last && matches!(request.verb, Verb::SendImm | Verb::WriteImm)).then_some(request.imm);
    seen.inv = (last && request.verb == Verb::SendInv).then_some(request.inv);
    seen.solicited = last && request.solicited && request.verb.consumes();
    seen
}

/// The bytes of the request's data that belong to its packet `k`.
fn chunk(flow: &Flow, request: &Op, k: u64) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(k).ok()? * flow.pmtu as usize;
    let to = (from + flow.pmtu as usize).min(request.len as usize);
    (from <= to).then_some(from..to)
}

impl Watch {
    /// A request leaves its requester, which may have `max_rd_atomic` READs and atomics under way.
    pub fn request_sent(
        &mut self,
        now: u64,
        flow: &Flow,
        max_rd: u32,
        seen: &Seen,
    ) -> Result<(), String> {
        let wait = self.wait_until.saturating_sub(now);
        ensure!(wait == 0, "request sent {wait} ns too early after an RNR NAK");
        let packet = flow.packet(seen.psn);
        let high = self.sent.len() as u64;
        ensure!(packet <= high, "request {packet} sent before {high}");
        let index = flow.op_at(packet).ok_or("request with a PSN of nothing posted")?;
        let request = &flow.ops[index];
        let k = packet - request.first;
        self.check_request(flow, request, k, seen)?;
        if packet == high {
            self.first_time(flow, index, max_rd)?;
        } else {
            // The last packet may be repeated so that it asks for an acknowledgement.
            let asks = packet + 1 == high && seen.ack_req && (!self.asked || self.given_back);
            ensure!(self.may_resend || asks, "packet {packet} of {high} sent again for no reason");
        }
        let ahead = flow.requests_before(packet) + 1;
        let in_flight = ahead.saturating_sub(flow.requests_before(self.acked));
        ensure!(in_flight <= WINDOW, "{in_flight} requests in flight");
        let covered = if request.verb == Verb::Read { request.first + request.span } else { packet + 1 };
        self.given_back = false;
        self.may_resend &= covered < high;
        self.sent.resize(high.max(covered) as usize, 0);
        for count in &mut self.sent[packet as usize..covered as usize] {
            *count += 1;
        }
        self.asked = seen.ack_req || request.verb.is_read_like();
        Ok(())
    }

    fn check_request(&self, flow: &Flow, request: &Op, k: u64, seen: &Seen) -> Result<(), String> {
        let mut expected = expected_request(flow, request, k);
        if request.verb.carries_data() {
            let range = chunk(flow, request, k).ok_or("request beyond its data")?;
            ensure!(seen.payload == &request.data[range], "wrong payload in {seen:x?}");
        } else {
            ensure!(seen.payload.is_empty(), "payload in {seen:x?}");
        }
        if let (Some(e), Some(s)) = (&mut expected.atomic, &seen.atomic) {
            if request.verb != (Verb::CompareSwap { compare: e.3, swap: e.2 }) {
                e.3 = s.3; // meaningless for fetch and add
            }
        }
        let same = Seen {
            ack_req: expected.ack_req,
            pad: expected.pad,
            pkey: expected.pkey,
            dest_qp: expected.dest_qp,
            payload: &[],
            ..seen.clone()
        };
        ensure!(same == expected, "sent {same:x?}, expected {expected:x?}");
        Ok(())
    }

    /// A request begins, or goes on, where nothing was sent before.
    fn first_time(&mut self, flow: &Flow, index: usize, max_rd: u32) -> Result<(), String> {
        let out = self.started - self.finished;
        let request = &flow.ops[index];
        if self.sent.len() as u64 == request.first && request.fence {
            ensure!(out == 0, "fenced request {index} sent with {out} reads under way");
        }
        if request.verb.is_read_like() {
            ensure!((out as u32) < max_rd, "{} reads under way, {max_rd} allowed", out + 1);
            self.started += 1;
        }
        Ok(())
    }

    /// A response leaves the responder.
    pub fn response_sent(&mut self, flow: &Flow, seen: &Seen) -> Result<(), String> {
        let packet = flow.packet(seen.psn);
        let mut least = packet;
        match seen.opcode {
            op::ACK => {
                let (syndrome, _) = seen.aeth.unwrap_or_default();
                if is_fatal(syndrome) {
                    // Of a READ it comes when the answer cannot be sent.
                    ensure!(packet <= self.accepted, "NAK {syndrome:#x} of {packet}");
                } else if syndrome != ACK_NO_CREDIT {
                    ensure!(packet == self.accepted, "NAK {syndrome:#x} of {packet}, expecting {}", self.accepted);
                } else {
                    ensure!(packet < self.accepted, "ACK of {packet}, expecting {}", self.accepted);
                    least += 1;
                }
            }
            op::ATOMIC_ACK => self.check_atomic_ack(flow, packet, seen)?,
            _ => self.check_read_response(flow, packet, seen)?,
        }
        let Some((_, msn)) = seen.aeth else {
            return Ok(());
        };
        let completed = |packet| flow.ops.partition_point(|op| op.first + op.span <= packet);
        let (low, high) = (completed(least), completed(self.accepted));
        let msn = msn as usize;
        ensure!((low..=high).contains(&msn), "MSN {msn}, not {low} to {high}, in {seen:x?}");
        Ok(())
    }

    fn answered_op<'a>(&self, flow: &'a Flow, packet: u64) -> Result<&'a Op, String> {
        ensure!(packet < self.accepted, "answer to {packet}, expecting {}", self.accepted);
        let index = flow.op_at(packet).ok_or("answer to nothing")?;
        Ok(&flow.ops[index])
    }

    fn check_atomic_ack(&self, flow: &Flow, packet: u64, seen: &Seen) -> Result<(), String> {
        let request = self.answered_op(flow, packet)?;
        ensure!(request.verb.is_atomic(), "atomic answer to {:?}", request.verb);
        let found = u64::from_ne_bytes(request.data[..8].try_into().map_err(|_| "no operand")?);
        let original = seen.original;
        ensure!(original == Some(found), "atomic found {original:x?}, expected {found:#x}");
        Ok(())
    }

    fn check_read_response(&self, flow: &Flow, packet: u64, seen: &Seen) -> Result<(), String> {
        let request = self.answered_op(flow, packet)?;
        ensure!(request.verb == Verb::Read, "read answer to {:?}", request.verb);
        let k = packet - request.first;
        let range = chunk(flow, request, k).ok_or("read answer beyond its data")?;
        let len = seen.payload.len();
        ensure!(len == range.len(), "{len} bytes, not {} in {seen:x?}", range.len());
        let ends = matches!(seen.opcode, op::READ_LAST | op::READ_ONLY);
        ensure!(ends == (k + 1 == request.span), "wrong end of a read in {seen:x?}");
        let starts = matches!(seen.opcode, op::READ_FIRST | op::READ_ONLY);
        ensure!(starts || k > 0, "wrong start of a read in {seen:x?}");
        if request.inbox.is_none() {
            ensure!(seen.payload == &request.data[range], "wrong data in {seen:x?}");
        }
        Ok(())
    }

    /// The responder has executed the request packet that it was waiting for.
    pub fn request_executed(&mut self, flow: &Flow, psn: u32) {
        let packet = flow.packet(psn);
        if packet != self.accepted {
            return;
        }
        if let Some(index) = flow.op_at(packet) {
            let request = &flow.ops[index];
            let whole = request.verb == Verb::Read;
            self.accepted = if whole { request.first + request.span } else { packet + 1 };
        }
    }

    /// A response reaches the requester.
    pub fn response_delivered(&mut self, flow: &Flow, seen: &Seen) {
        let packet = flow.packet(seen.psn);
        if packet >= self.sent.len() as u64 {
            return;
        }
        let nak = seen.opcode == op::ACK && seen.aeth.is_some_and(|(s, _)| s >> 5 != 0);
        if seen.opcode == op::ACK && seen.aeth.is_some_and(|(s, _)| s >> 5 == 1) {
            *self.rnr.entry(packet).or_default() += 1;
        }
        self.acked = self.acked.max(packet + u64::from(!nak));
        let ends = matches!(seen.opcode, op::READ_LAST | op::READ_ONLY | op::ATOMIC_ACK);
        if let (true, Some(index)) = (ends, flow.op_at(packet)) {
            self.answered.resize(flow.ops.len(), false);
            if !std::mem::replace(&mut self.answered[index], true) {
                self.finished += 1;
            }
        }
    }

    /// Something happened which makes the requester go back: a loss, as far as it can see.
    pub fn allow_resend(&mut self) {
        self.may_resend = true;
    }

    /// The device gave a packet back: the one before it may have to ask now.
    pub fn packet_given_back(&mut self) {
        self.given_back = true;
    }

    /// The requester has taken an answer; `wait_until` is when it may go on.
    pub fn answer_taken(&mut self, wait_until: u64) {
        self.wait_until = wait_until;
    }

    /// The last answer to a READ or atomic has reached the requester.
    pub fn is_answered(&self, index: usize) -> bool {
        self.answered.get(index).copied().unwrap_or(false)
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

    /// The requester has nothing to send now: somebody must have been asked for an answer.
    pub fn check_asked(&self) -> Result<(), String> {
        let waiting = self.acked < self.sent.len() as u64;
        let fine = !waiting || self.asked || !self.rnr.is_empty();
        ensure!(fine, "last packet in flight without AckReq");
        Ok(())
    }

    /// Whether any packet of the request was sent.
    pub fn has_begun(&self, request: &Op) -> bool {
        (request.first as usize) < self.sent.len()
    }
}

/// Whether the syndrome is a NAK that ends the connection.
pub fn is_fatal(syndrome: u8) -> bool {
    syndrome >> 5 == 3 && syndrome != NAK_SEQUENCE
}
