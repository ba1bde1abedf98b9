// SPDX-License-Identifier: GPL-2.0

//! The requester of a reliable connection: which request packet goes out next (IBTA 9.7.2, 9.7.3).
//!
//! Four positions describe everything that is outstanding, and none of them needs a search:
//!
//! ```text
//!   head      una            cursor        started       tail
//!    |  done   |  in flight    |  to resend   |  not begun  |
//! ```
//!
//! `una` is the oldest PSN without an answer, `cursor` the packet to send next; both know the request
//! they are in. Whatever goes wrong, the way back is the same: the cursor returns to `una`. The other
//! half, what answers and timeouts do to these positions, is in `completer`.

use super::burst::Burst;
use super::time::ack_timeout;
use super::wire::{
    pad_for, AtomicEthRepr, BthRepr, Ext, IethRepr, ImmDtRepr, Kind, Opcode, PacketRepr, Position,
    Psn, RethRepr, Service, Tail,
};
use super::{
    Attr, Instant, Origin, Payload, Request, SendCompletion, SendOp, SendQueue, Status, Transmit,
};

/// How many request packets may be in flight.
pub const WINDOW: u16 = 128;

/// How many after a timeout, and then twice as many with each acknowledgement: what was sent may still wait
/// at a receiver that is slow, and all of it again would only keep that busy.
pub(super) const RESTART: u16 = 4;

/// An acknowledgement is asked for at least this often.
const ACK_EVERY: u16 = WINDOW / 4;

/// How many PSNs may be outstanding, responses to READs included: half of the circle, so that old and
/// new can be told apart (IBTA 9.7.3.1). One READ of 2^31 bytes at a path MTU of 256 needs them all.
const SPAN: u32 = Psn::HALF;

/// A packet of the send queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The request.
    pub(super) n: u32,
    /// The PSN, one of the request's.
    pub(super) psn: Psn,
}

/// The send side of a connection.
#[derive(Debug)]
pub struct Requester {
    /// The oldest request whose completion was not handed out.
    pub(super) head: u32,
    /// The oldest PSN without an answer and its request.
    pub(super) una: Cursor,
    /// The packet to send next. Never before `una`.
    pub(super) cursor: Cursor,
    /// The first request that has no PSNs yet, and the PSN that it will begin with.
    pub(super) started: Cursor,
    /// One past the highest PSN that was sent: answers are about PSNs in `una .. max`.
    pub(super) max: Psn,
    /// Packets between `una` and `cursor`; a READ counts as one.
    pub(super) in_flight: u16,
    /// How many there may be now: at most [`WINDOW`].
    pub(super) window: u16,
    /// READs and atomics between `una` and `cursor`.
    pub(super) responses_due: u16,
    /// Packets since one asked for an acknowledgement.
    pub(super) since_ack_req: u16,
    /// The packet before `cursor` did not ask for an acknowledgement.
    pub(super) unasked: bool,
    /// What `unasked` was before the packet sent last.
    was_unasked: bool,
    /// The cursor went back to `una` and nothing was acknowledged since.
    pub(super) recovering: bool,
    /// `deadline` is the end of a wait that an RNR NAK asked for.
    pub(super) rnr_wait: bool,
    /// Times sent again without progress.
    pub(super) retries: u8,
    /// RNR NAKs without progress.
    pub(super) rnr_retries: u8,
    pub(super) burst: Burst,
    /// When to act if nothing arrives.
    pub(super) deadline: Option<Instant>,
    /// How request `una.n` failed, until its completion is handed out.
    pub(super) failed: Option<Status>,
}

impl Requester {
    /// A requester that has sent nothing and will begin with `psn`.
    pub(super) const fn new(psn: Psn) -> Self {
        let begin = Cursor { n: 0, psn };
        Requester {
            head: 0,
            una: begin,
            cursor: begin,
            started: begin,
            max: psn,
            in_flight: 0,
            window: WINDOW,
            responses_due: 0,
            since_ack_req: 0,
            unasked: false,
            was_unasked: false,
            recovering: false,
            rnr_wait: false,
            retries: 0,
            rnr_retries: 0,
            burst: Burst::NEW,
            deadline: None,
            failed: None,
        }
    }

    /// The PSN that the next new packet will have, as a query of the QP shows it.
    #[inline]
    pub fn next_psn(&self) -> Psn {
        self.max
    }

    /// Whether every request that was begun is complete.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.una.n == self.started.n
    }

    /// Whether a request has failed and takes the QP to the error state.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Request `una.n` has failed; the caller moves the QP to the error state.
    #[inline]
    pub(super) fn fail(&mut self, status: Status) {
        self.failed = Some(status);
        self.deadline = None;
    }

    /// Whether something is left to be sent, now or later.
    #[inline]
    pub(super) fn may_transmit<Q: SendQueue>(&self, q: &Q) -> bool {
        self.cursor.n != q.tail() || self.unasked
    }

    /// The next request packet, if one may go out now. With `draining` no new request begins.
    #[inline]
    pub(super) fn poll<Q: SendQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        draining: bool,
        q: &mut Q,
    ) -> Option<Transmit> {
        if self.rnr_wait {
            if self.deadline.is_some_and(|end| now < end) {
                self.burst.go();
                return None;
            }
            self.rnr_wait = false;
            self.deadline = None;
        }
        let next = self.started.n;
        let fresh = self.cursor.n == next && next != q.tail() && !draining;
        // After a packet that did not ask for an acknowledgement another must follow.
        if !fresh || self.unasked {
            self.burst.go();
        } else if self.burst.holds(now, next, q) {
            return None;
        }
        if !self.may_send(attr, draining, q) {
            return self.ask(now, attr, q);
        }
        self.send(now, attr, draining, false, q)
    }

    /// Whether the packet at the cursor may go out now. Notices when its request can never.
    #[inline]
    fn may_send<Q: SendQueue>(&mut self, attr: &Attr, draining: bool, q: &Q) -> bool {
        let n = self.cursor.n;
        let fresh = n == self.started.n;
        if fresh && (draining || n == q.tail()) {
            return false;
        }
        let Some(request) = q.get(n) else {
            return false;
        };
        let defect = if fresh {
            request.defect(attr)
        } else {
            request.broken
        };
        if let Some(status) = defect {
            // It fails in its turn: when all before it are complete.
            if self.una.n == n {
                self.fail(status);
            }
            return false;
        }
        let starts = fresh || self.cursor.psn == request.first_psn;
        self.has_room(request, attr, starts, fresh, 0)
    }

    /// Whether window, fence and READ limit admit the packet at the cursor, which is of `request`, when
    /// `ahead` more than are counted go before it.
    #[inline]
    fn has_room(
        &self,
        request: &Request,
        attr: &Attr,
        starts: bool,
        fresh: bool,
        ahead: u16,
    ) -> bool {
        if self.in_flight.saturating_add(ahead) >= self.window {
            return false;
        }
        // IBTA 10.8.3.3: a fenced request waits for the READs and atomics before it.
        if starts && request.fence && self.responses_due > 0 {
            return false;
        }
        let span = if !request.op.wants_response() {
            1
        } else if self.responses_due >= u16::from(attr.max_rd_atomic.max(1)) {
            // One may always be sent again, even if the limit went to 0 meanwhile.
            return false;
        } else if fresh {
            // Not started: its PSNs are not counted out yet.
            request.count_psns(attr.pmtu)
        } else {
            request.end_psn().offset_from(self.cursor.psn)
        };
        self.offset(self.cursor.psn).wrapping_add(span) <= SPAN
    }

    /// Nothing more may go out now. If the last packet did not ask for an acknowledgement, sends it
    /// again so that it does: it looked as if more would follow, and whatever waits must not wait for
    /// the timeout.
    #[cold]
    fn ask<Q: SendQueue>(&mut self, now: Instant, attr: &Attr, q: &mut Q) -> Option<Transmit> {
        if !self.unasked || self.in_flight == 0 || self.has_failed() {
            return None;
        }
        self.unasked = false;
        let n = self.cursor.n;
        let inside = n != self.started.n
            && q.get(n)
                .is_some_and(|request| request.first_psn != self.cursor.psn);
        self.cursor.psn = self.cursor.psn.prev();
        if !inside {
            self.cursor.n = n.wrapping_sub(1);
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.send(now, attr, true, true, q)
    }

    /// Sends the packet at the cursor and moves the cursor past it.
    #[inline]
    fn send<Q: SendQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        draining: bool,
        ask: bool,
        q: &mut Q,
    ) -> Option<Transmit> {
        let Cursor { n, psn } = self.cursor;
        let request = q.get_mut(n)?;
        if n == self.started.n {
            request.start(psn, attr.pmtu);
            self.started = Cursor {
                n: n.wrapping_add(1),
                psn: request.end_psn(),
            };
        }
        let request = *request;
        self.was_unasked = self.unasked;
        let index = psn.offset_from(request.first_psn);
        let transmit = if request.op.wants_response() {
            self.cursor.psn = request.end_psn();
            self.responses_due = self.responses_due.saturating_add(1);
            self.since_ack_req = 0;
            self.unasked = false;
            response_packet(&request, n, index, attr)
        } else {
            self.cursor.psn = psn.next();
            let ends = index.wrapping_add(1) >= request.psns;
            let ask = ask || self.wants_ack(ends, attr, draining, q);
            self.unasked = !ask;
            self.since_ack_req = if ask {
                0
            } else {
                self.since_ack_req.saturating_add(1)
            };
            message_packet(&request, n, index, ask, attr)
        };
        if self.cursor.psn == request.end_psn() {
            self.cursor.n = n.wrapping_add(1);
        }
        self.in_flight = self.in_flight.saturating_add(1);
        if self.offset(self.cursor.psn) > self.offset(self.max) {
            self.max = self.cursor.psn;
        }
        if self.deadline.is_none() {
            self.deadline = ack_timeout(attr.timeout).map(|nanos| now.after(nanos));
        }
        Some(transmit)
    }

    /// Whether the packet about to be sent, which `ends` its message or not, is to ask for an
    /// acknowledgement (IBTA 9.7.5.1.2, coalesced ACKs): now and then, and when none may follow it.
    #[inline]
    fn wants_ack<Q: SendQueue>(&self, ends: bool, attr: &Attr, draining: bool, q: &Q) -> bool {
        if self.since_ack_req.saturating_add(1) >= ACK_EVERY
            || self.in_flight.saturating_add(1) >= self.window
        {
            return true;
        }
        ends && !self.more_follows(attr, draining, q)
    }

    /// Whether the request after the one that the cursor just left can send at once.
    #[inline]
    fn more_follows<Q: SendQueue>(&self, attr: &Attr, draining: bool, q: &Q) -> bool {
        let next = self.cursor.n.wrapping_add(1);
        let fresh = next == self.started.n;
        if fresh && (draining || next == q.tail()) {
            return false;
        }
        q.get(next).is_some_and(|request| {
            let defect = if fresh {
                request.defect(attr)
            } else {
                request.broken
            };
            defect.is_none() && self.has_room(request, attr, true, fresh, 1)
        })
    }

    /// How far `psn` lies after the oldest outstanding one.
    #[inline]
    pub(super) fn offset(&self, psn: Psn) -> u32 {
        psn.offset_from(self.una.psn)
    }

    /// A packet of request `n` with `psn` was not sent after all.
    #[cold]
    pub(super) fn undo<Q: SendQueue>(&mut self, n: u32, psn: Psn, q: &Q) {
        let wants_response = q.get(n).is_some_and(|request| request.op.wants_response());
        // Late responses may have come meanwhile to a READ that was to be resumed.
        let resumed = wants_response && n == self.una.n;
        let psn = if resumed { self.una.psn } else { psn };
        if self.offset(psn) >= self.offset(self.cursor.psn) {
            return;
        }
        self.cursor = Cursor { n, psn };
        self.in_flight = self.in_flight.saturating_sub(1);
        if wants_response {
            self.responses_due = self.responses_due.saturating_sub(1);
        }
        // What went before it may have counted on it to ask for the acknowledgement.
        self.unasked = self.in_flight > 0 && self.was_unasked && !self.ends_with_response(q);
        self.was_unasked = true;
        if self.in_flight == 0 && !self.rnr_wait {
            self.deadline = None;
        }
    }

    /// Whether the packet before the cursor is a READ or an atomic, which is answered in any case.
    fn ends_with_response<Q: SendQueue>(&self, q: &Q) -> bool {
        let n = self.cursor.n;
        let starts = q
            .get(n)
            .is_some_and(|request| request.first_psn == self.cursor.psn);
        let before = if starts { n.wrapping_sub(1) } else { n };
        q.get(before)
            .is_some_and(|request| request.op.wants_response())
    }

    /// The bytes of request `n` could not be read for the packet with `psn`: it is not carried on and
    /// completes with `status` in its turn.
    #[cold]
    pub(super) fn local_error<Q: SendQueue>(
        &mut self,
        n: u32,
        psn: Psn,
        status: Status,
        q: &mut Q,
    ) {
        if let Some(request) = q.get_mut(n) {
            request.broken = Some(status);
        }
        self.undo(n, psn, q);
    }

    /// The next completion, in the order of posting. With `flush` whatever is left in the queue is
    /// flushed (IBTA 10.3.1, error state; 11.6.2).
    #[inline]
    pub(super) fn poll_completion<Q: SendQueue>(
        &mut self,
        flush: bool,
        q: &mut Q,
    ) -> Option<SendCompletion> {
        let n = self.head;
        if n != self.una.n {
            self.head = n.wrapping_add(1);
            let (byte_len, signaled) = q
                .get(n)
                .map_or((0, false), |request| (request.len, request.signaled));
            return Some(SendCompletion {
                n,
                status: Status::Success,
                byte_len,
                signaled,
            });
        }
        let status = match self.failed.take() {
            Some(status) => status,
            None if flush && n != q.tail() => Status::WrFlush,
            None => return None,
        };
        self.head = n.wrapping_add(1);
        self.una.n = self.head;
        Some(SendCompletion {
            n,
            status,
            byte_len: 0,
            signaled: true,
        })
    }
}

/// The headers of a request packet.
#[inline]
fn header(opcode: Opcode, psn: Psn, ext: Ext, attr: &Attr) -> PacketRepr {
    PacketRepr {
        bth: BthRepr::new(opcode, attr.pkey, attr.dest_qpn, psn),
        ext,
    }
}

/// The packet of a SEND or WRITE that is the `index`th of its message.
#[inline]
fn message_packet(request: &Request, n: u32, index: u32, ask: bool, attr: &Attr) -> Transmit {
    let offset = attr.pmtu.offset(index);
    let len = request.len.saturating_sub(offset).min(attr.pmtu.bytes());
    let starts = index == 0;
    let ends = index.wrapping_add(1) >= request.psns;
    let (kind, tail) = match request.op {
        SendOp::Send => (Kind::Send, Tail::Plain),
        SendOp::SendImm(_) => (Kind::Send, Tail::Imm),
        SendOp::SendInv(_) => (Kind::Send, Tail::Inv),
        SendOp::WriteImm(_) => (Kind::Write, Tail::Imm),
        _ => (Kind::Write, Tail::Plain),
    };
    let opcode = Opcode::compose(Service::Rc, kind, Position::of(starts, ends), tail)
        // There is one for each of the kinds above; any will do here.
        .unwrap_or(Opcode::RcSendOnly);
    let psn = request.first_psn.add(index);
    let mut header = header(opcode, psn, message_ext(request, starts, ends), attr);
    header.bth.pad = pad_for(len as usize);
    header.bth.ack_req = ask;
    // IBTA 9.2.3: SE stands in the last packet, of a SEND or a WRITE with immediate.
    header.bth.solicited = ends && request.solicited && !matches!(request.op, SendOp::Write);
    Transmit {
        header,
        payload: if len == 0 {
            Payload::None
        } else {
            Payload::Request { n, offset, len }
        },
        origin: Origin::Request { n },
    }
}

/// The headers after the BTH of a SEND or WRITE packet (IBTA 9.2, Table 38).
#[inline]
fn message_ext(request: &Request, starts: bool, ends: bool) -> Ext {
    let reth = RethRepr {
        va: request.va,
        rkey: request.rkey,
        dma_len: request.len,
    };
    match request.op {
        SendOp::SendImm(data) if ends => Ext::Imm(ImmDtRepr { data }),
        SendOp::SendInv(rkey) if ends => Ext::Inv(IethRepr { rkey }),
        SendOp::Write if starts => Ext::Reth(reth),
        SendOp::WriteImm(data) if starts && ends => Ext::RethImm(reth, ImmDtRepr { data }),
        SendOp::WriteImm(_) if starts => Ext::Reth(reth),
        SendOp::WriteImm(data) if ends => Ext::Imm(ImmDtRepr { data }),
        _ => Ext::None,
    }
}

/// The packet of an atomic, or of a READ of all from its `index`th packet on: after a loss only what
/// is missing is asked for again (IBTA 9.7.6.1, 9.9.2.1).
#[inline]
fn response_packet(request: &Request, n: u32, index: u32, attr: &Attr) -> Transmit {
    let atomic = |swap_add, compare| {
        Ext::Atomic(AtomicEthRepr {
            va: request.va,
            rkey: request.rkey,
            swap_add,
            compare,
        })
    };
    let offset = attr.pmtu.offset(index);
    let (opcode, ext) = match request.op {
        SendOp::CompareSwap { compare, swap } => (Opcode::RcCompareSwap, atomic(swap, compare)),
        SendOp::FetchAdd { add } => (Opcode::RcFetchAdd, atomic(add, 0)),
        _ => (
            Opcode::RcReadRequest,
            Ext::Reth(RethRepr {
                va: request.va.wrapping_add(u64::from(offset)),
                rkey: request.rkey,
                dma_len: request.len.saturating_sub(offset),
            }),
        ),
    };
    let mut header = header(opcode, request.first_psn.add(index), ext, attr);
    header.bth.ack_req = true;
    Transmit {
        header,
        payload: Payload::None,
        origin: Origin::Request { n },
    }
}
