// SPDX-License-Identifier: GPL-2.0

//! The foreign peer's requester: go-back-N over everything that is not acknowledged (IBTA 9.7.3,
//! 9.7.5, 9.7.6, 9.9.2).

use super::attr::{unwrap_psn, Attr, Style};
use super::request_packet::{request_packet, Begun};
use crate::api::*;
use oxe_proto::wire::{Kind, NakCode, PacketRepr, Position, Syndrome};
use std::collections::VecDeque;

/// Half of the PSNs: so many may be in flight (IBTA 9.7.3.1).
const HALF: u64 = 1 << 23;

pub struct Requester {
    style: Style,
    start_psn: u32,
    begun: VecDeque<Begun>,
    /// The next request to begin, and its first packet.
    next_n: u32,
    next_packet: u64,
    /// The oldest packet without an answer, the one to send next, and one past the last that was
    /// ever sent.
    una: u64,
    nxt: u64,
    max: u64,
    retries: u8,
    rnr_retries: u8,
    /// It went back, and nothing was acknowledged since.
    went_back: bool,
    timer: Option<u64>,
    rnr_until: Option<u64>,
    /// The next request to report; those before `done` are complete.
    head: u32,
    done: u32,
    /// A request whose memory cannot be read.
    local_error: Option<(u32, Status)>,
    failed: Option<Status>,
}

impl Requester {
    pub fn new(start_psn: u32, style: Style) -> Requester {
        Requester {
            style,
            start_psn,
            begun: VecDeque::new(),
            next_n: 0,
            next_packet: 0,
            una: 0,
            nxt: 0,
            max: 0,
            retries: 0,
            rnr_retries: 0,
            went_back: false,
            timer: None,
            rnr_until: None,
            head: 0,
            done: 0,
            local_error: None,
            failed: None,
        }
    }

    fn psn(&self, packet: u64) -> u32 {
        self.start_psn.wrapping_add(packet as u32) & 0xff_ffff
    }

    pub fn next_psn(&self) -> u32 {
        self.psn(self.max)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn fail(&mut self, status: Status) {
        self.failed = Some(status);
        self.timer = None;
        self.rnr_until = None;
    }

    pub fn deadline(&self) -> Option<u64> {
        self.rnr_until.or(self.timer)
    }

    /// READs and atomics in flight, and request packets in flight.
    fn in_flight(&self) -> (usize, u64) {
        self.begun.iter().fold((0, 0), |(answered, packets), b| {
            if b.answered {
                // A READ is requested as a whole: one that is not in flight will be requested
                // again.
                let flying = b.end <= self.nxt;
                (answered + usize::from(flying), packets + u64::from(flying))
            } else {
                let from = b.first.max(self.una);
                (answered, packets + b.end.min(self.nxt).saturating_sub(from))
            }
        })
    }

    /// The next request packet.
    pub fn poll<Q: RequestQueue>(&mut self, now: u64, attr: &Attr, q: &Q) -> Option<Transmit> {
        if self.failed.is_some() || self.rnr_until.is_some_and(|end| now < end) {
            return None;
        }
        self.rnr_until = None;
        let current = self.current(attr, q)?;
        let request = *q.get(current.n)?;
        let local_error = self.local_error.filter(|(n, _)| *n == current.n);
        if let Some(status) = request
            .local_error()
            .or(local_error.map(|(_, status)| status))
        {
            if self.una == self.nxt {
                self.fail(status);
            }
            return None;
        }
        let (answered, packets) = self.in_flight();
        let fenced = request.fence && self.nxt == current.first && answered > 0;
        let too_many = current.answered && answered >= attr.max_rd_atomic;
        let span = if current.answered {
            current.end
        } else {
            self.nxt + 1
        };
        if fenced || too_many || packets >= self.style.window || span - self.una > HALF {
            return None;
        }
        if current.first == self.next_packet {
            self.begun.push_back(current);
            self.next_n = current.n.wrapping_add(1);
            self.next_packet = current.end;
        }
        Some(self.send(now, attr, &current, &request, packets + 1))
    }

    /// The request of the next packet. It may not have begun yet.
    fn current<Q: RequestQueue>(&self, attr: &Attr, q: &Q) -> Option<Begun> {
        if self.nxt < self.next_packet {
            return self.begun.iter().find(|b| self.nxt < b.end).copied();
        }
        let n = self.next_n;
        let request = q.get(n).filter(|_| n != q.tail())?;
        let single = is_atomic(&request.op) || is_placement(&request.op);
        let packets = if single { 1 } else { attr.packets(request.len) };
        Some(Begun {
            n,
            first: self.next_packet,
            end: self.next_packet + packets,
            answered: single || request.op == SendOp::Read,
        })
    }

    fn send(
        &mut self,
        now: u64,
        attr: &Attr,
        current: &Begun,
        request: &Request,
        in_flight: u64,
    ) -> Transmit {
        let mut from = self.nxt;
        if current.answered {
            if self.style.restarts_reads {
                from = current.first;
            }
            self.nxt = current.end;
        } else {
            self.nxt += 1;
        }
        self.max = self.max.max(self.nxt);
        if self.timer.is_none() {
            self.timer = timeout(attr, now);
        }
        let ends = self.nxt == current.end;
        let ask = ends
            || from % self.style.ack_every == 0
            || self.went_back
            || in_flight >= self.style.window;
        let mut transmit = request_packet(attr, request, current, from, self.psn(from));
        transmit.header.bth.ack_req = ask;
        transmit
    }

    /// Takes a response.
    pub fn handle<E: RequestQueue + RequesterOps>(
        &mut self,
        now: u64,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        let una_psn = self.psn(self.una);
        let at = unwrap_psn(pkt.bth.psn.get(), una_psn, self.una);
        let Some(at) = at.filter(|at| (self.una..self.max).contains(at)) else {
            return Verdict::Dropped(DropReason::Ghost);
        };
        let Some(aeth) = pkt.ext.aeth() else {
            // The middle of a READ response.
            return self.handle_answer(now, attr, at, pkt, payload_len, env);
        };
        match aeth.syndrome {
            Syndrome::Ack { .. } if pkt.bth.opcode.kind() != Kind::Ack => {
                self.handle_answer(now, attr, at, pkt, payload_len, env)
            }
            Syndrome::Ack { .. } => self.acknowledge(now, attr, at + 1),
            Syndrome::RnrNak { timer } => match self.acknowledge(now, attr, at) {
                Verdict::Accepted => self.not_ready(now, attr, timer.as_nanos()),
                gap => gap,
            },
            Syndrome::Nak { code } => match self.acknowledge(now, attr, at) {
                Verdict::Accepted => self.refused(now, attr, code),
                gap => gap,
            },
            Syndrome::Reserved(_) => Verdict::Dropped(DropReason::BadResponse),
        }
    }

    /// Everything before `end` was received. If a READ or atomic before `end` has no response yet,
    /// the response is lost, and that is as good as a NAK (IBTA 9.7.6.1).
    fn acknowledge(&mut self, now: u64, attr: &Attr, end: u64) -> Verdict {
        while self.una < end {
            let Some(oldest) = self.begun.front().filter(|b| !b.answered) else {
                if !self.went_back {
                    self.retry(now, attr);
                }
                return Verdict::Dropped(DropReason::Gap);
            };
            let reached = oldest.end.min(end);
            self.advance(now, attr, reached);
        }
        Verdict::Accepted
    }

    /// The oldest packet without an answer is `una` now.
    fn advance(&mut self, now: u64, attr: &Attr, una: u64) {
        self.una = una;
        self.nxt = self.nxt.max(una);
        if let Some(oldest) = self.begun.front().filter(|b| b.end == una) {
            self.done = oldest.n.wrapping_add(1);
            self.begun.pop_front();
        }
        self.retries = 0;
        self.rnr_retries = 0;
        self.went_back = false;
        self.rnr_until = None;
        self.timer = timeout(attr, now).filter(|_| self.una < self.nxt);
    }

    /// A packet of a READ response, or the response to an atomic.
    fn handle_answer<E: RequestQueue + RequesterOps>(
        &mut self,
        now: u64,
        attr: &Attr,
        at: u64,
        pkt: &PacketRepr,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        // It acknowledges all packets before it (IBTA 9.7.5.1.1).
        let before = self.acknowledge(now, attr, at);
        if before != Verdict::Accepted {
            return before;
        }
        let oldest = self.begun.front().copied();
        let request = oldest.and_then(|b| Some((b, *env.get(b.n)?)));
        let Some((oldest, request)) = request else {
            return Verdict::Dropped(DropReason::BadResponse);
        };
        let placed = match pkt.ext.atomic_ack() {
            Some(ack) if is_atomic(&request.op) => env.place_atomic(oldest.n, ack.original),
            None if is_placement(&request.op) => {
                let only = pkt.bth.opcode.position() == Position::Only;
                (only && payload_len == 0)
                    .then_some(())
                    .ok_or(Status::BadResp.into())
            }
            None if request.op == SendOp::Read => {
                let offset = (at - oldest.first) as u32 * attr.pmtu;
                let want = (request.len - offset).min(attr.pmtu);
                let ends = at + 1 == oldest.end;
                if payload_len != want || pkt.bth.opcode.position().is_end() != ends {
                    Err(Status::BadResp.into())
                } else {
                    place_read(env, oldest.n, offset, (want, ends))
                }
            }
            _ => Err(Status::BadResp.into()),
        };
        if let Err(why) = placed {
            let PlaceError::Failed(status) = why else {
                return Verdict::Dropped(DropReason::NotPresent);
            };
            self.fail(status);
            return Verdict::Dropped(match status {
                Status::BadResp => DropReason::BadResponse,
                _ => DropReason::Unplaceable,
            });
        }
        self.advance(now, attr, at + 1);
        Verdict::Accepted
    }

    fn not_ready(&mut self, now: u64, attr: &Attr, wait: u64) -> Verdict {
        if self.rnr_until.is_some() {
            return Verdict::Dropped(DropReason::RepeatedNak);
        }
        // 7 stands for infinite retries (IBTA 9.7.5.2.8).
        if attr.rnr_retry != 7 && self.rnr_retries >= attr.rnr_retry {
            self.fail(Status::RnrRetryExc);
            return Verdict::Accepted;
        }
        self.rnr_retries += 1 - u8::from(attr.rnr_retry == 7);
        self.nxt = self.una;
        self.timer = None;
        self.rnr_until = Some(now + wait);
        Verdict::Accepted
    }

    fn refused(&mut self, now: u64, attr: &Attr, code: NakCode) -> Verdict {
        match code {
            NakCode::PsnSequence if self.went_back || self.rnr_until.is_some() => {
                return Verdict::Dropped(DropReason::RepeatedNak);
            }
            NakCode::PsnSequence => self.retry(now, attr),
            NakCode::InvalidRequest => self.fail(Status::RemInvReq),
            NakCode::RemoteAccess => self.fail(Status::RemAccess),
            NakCode::RemoteOperational => self.fail(Status::RemOp),
            NakCode::InvalidRdRequest => return Verdict::Dropped(DropReason::BadResponse),
        }
        Verdict::Accepted
    }

    /// Goes back to the oldest packet without an answer.
    fn retry(&mut self, now: u64, attr: &Attr) {
        if self.retries >= attr.retry_cnt {
            self.fail(Status::RetryExc);
            return;
        }
        self.retries += 1;
        self.nxt = self.una;
        self.went_back = true;
        self.timer = timeout(attr, now);
    }

    pub fn handle_timeout(&mut self, now: u64, attr: &Attr) {
        if self.rnr_until.is_none() && self.timer.is_some_and(|end| end <= now) {
            self.retry(now, attr);
        }
    }

    /// The payload of the packet with this PSN of request `n` cannot be read.
    pub fn cannot_send(&mut self, n: u32, psn: u32, status: Status) {
        self.local_error = Some((n, status));
        let at = unwrap_psn(psn, self.psn(self.una), self.una).unwrap_or(self.una);
        self.nxt = at.max(self.una).min(self.nxt);
    }

    pub fn completion<Q: RequestQueue>(&mut self, flush: bool, q: &Q) -> Option<SendCompletion> {
        let n = self.head;
        let (status, byte_len, signaled) = if n != self.done {
            let request = q.get(n)?;
            (Status::Success, request.len, request.signaled)
        } else {
            let flushed = (flush && n != q.tail()).then_some(Status::WrFlush);
            (self.failed.take().or(flushed)?, 0, true)
        };
        self.head = n.wrapping_add(1);
        if status != Status::Success {
            self.done = self.head;
        }
        Some(SendCompletion {
            n,
            status,
            byte_len,
            signaled,
        })
    }
}

/// Places a packet of the response to READ `n`: so many bytes, which end it or not.
fn place_read<E: RequesterOps>(
    env: &mut E,
    n: u32,
    offset: u32,
    (len, ends): (u32, bool),
) -> Result<(), PlaceError> {
    if len != 0 {
        env.place(n, offset)?;
    }
    if ends {
        env.finish_read(n)?;
    }
    Ok(())
}

fn is_atomic(op: &SendOp) -> bool {
    matches!(op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
}

/// Whether its response is a READ response without payload (IBTA annex A19.4).
fn is_placement(op: &SendOp) -> bool {
    matches!(op, SendOp::AtomicWrite | SendOp::Flush { .. })
}

/// When the ACK timeout expires (IBTA 9.7.6.1.3).
fn timeout(attr: &Attr, now: u64) -> Option<u64> {
    (attr.timeout != 0).then(|| now + (4096 << attr.timeout))
}
