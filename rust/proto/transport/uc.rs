// SPDX-License-Identifier: GPL-2.0

//! One UC queue pair (IBTA 9.8.2, 10.3.1): its state, segmentation of what it sends, and the
//! messages that it receives.
//!
//! Nothing is acknowledged or sent again. If a packet is lost, or refused, its whole message is
//! dropped, and the first packet of the next message is waited for. A receive request that a
//! dropped message has taken is used for the next one.

use super::common::autocork::Autocork;
use super::common::followers::request_followers;
use super::common::message_packet::message_packet;
use super::common::qp_state::{QpState, Transition};
use super::common::reassembly::{Reassembly, Refusal};
use super::common::unreliable::UnreliableQueue;
use super::common::{
    Attr, ConnectedQp, DropReason, Events, Instant, Invalid, Modify, Origin, Request, RequestQueue,
    RequesterOps, ResponderOps, SendCompletion, SendOp, State, Status, Transmit, Verdict,
};
use super::wire::{Kind, PacketRepr, Position, Psn, Service};

/// A new message that begins no more than so many PSNs before the expected one is no new message,
/// but a packet that the network delivered twice, or late. The specification knows no such packets,
/// as a fabric keeps their order. There must be few such PSNs, since any number of packets may have
/// been lost. It drops the message in progress all the same: if the peer was reset and begins anew,
/// its next packets must not be taken for the rest of that message.
///
/// A second such message that follows the first one in order is taken: hardware takes any message
/// (IBTA 9.8.2.2), so a peer that was reset is to lose no more than one.
const STALE: i32 = 1024;

/// The protocol state of one UC queue pair.
#[derive(Debug)]
pub struct UcQp {
    state: QpState,
    attr: Attr,
    queue: UnreliableQueue,
    autocork: Autocork,
    /// The packet to send next: its index in the message of the first request that is not sent to
    /// its end, and its PSN.
    index: u32,
    psn: Psn,
    /// The PSN of the packet after the last one that arrived.
    epsn: Psn,
    /// The PSN after the last packet, if that was one of a message that was dropped as stale.
    stale_next: Option<Psn>,
    reassembly: Reassembly,
    /// The first packet has arrived: the expected PSN is the peer's.
    established: bool,
}

impl Default for UcQp {
    fn default() -> Self {
        Self::new()
    }
}

impl UcQp {
    /// A queue pair in the reset state.
    pub const fn new() -> Self {
        UcQp {
            state: QpState::RESET,
            attr: Attr::DEFAULT,
            queue: UnreliableQueue::NEW,
            autocork: Autocork::NEW,
            index: 0,
            psn: Psn::ZERO,
            epsn: Psn::ZERO,
            stale_next: None,
            reassembly: Reassembly::NEW,
            established: false,
        }
    }

    /// The PSN of the next packet to be sent, for a query.
    #[inline]
    pub const fn next_psn(&self) -> Psn {
        self.psn
    }

    /// The expected PSN, for a query.
    #[inline]
    pub const fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Whether the QP is in SQD and a request that was begun is not sent to its end.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.state.is(State::Sqd) && !self.is_drained()
    }

    /// The time to call [`UcQp::handle_timeout`], as requests are corked until then.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.autocork.deadline().filter(|_| self.may_send())
    }

    /// The time is `now`: uncorks requests that have waited long enough. Afterwards
    /// [`UcQp::poll_timeout`] is later than `now`, even if no packet can be sent yet.
    pub fn handle_timeout<Q: RequestQueue>(&mut self, now: Instant, q: &Q) {
        self.autocork.handle_timeout(now, self.queue.next(), q);
    }

    /// Uncorks all requests. The owner calls this, and then [`ConnectedQp::poll_transmit`], before
    /// it resets or destroys the queue pair.
    pub fn flush_delayed(&mut self) {
        self.autocork.reset();
    }

    /// Whether every request that was begun is sent, and its payload is not needed any more.
    #[inline]
    fn is_drained(&self) -> bool {
        self.index == 0 && self.queue.is_released()
    }

    /// See [`QpState::note_drained`].
    #[inline]
    fn note_drained(&mut self) {
        self.state.note_drained(self.is_drained());
    }

    /// Whether a packet of the next request may be sent: in SQD only if the request was begun.
    #[inline]
    fn may_send(&self) -> bool {
        let state = match self.state.get() {
            State::Rts => true,
            State::Sqd => self.index != 0,
            _ => false,
        };
        state && !self.queue.has_failed()
    }

    /// Packet `self.index` of `request`, or up to `max_segments` middle packets from there on.
    #[inline]
    fn build(&mut self, request: &Request, n: u32, max_segments: u16) -> Transmit {
        let middle = request.psns.saturating_sub(1).saturating_sub(self.index);
        let segments = if self.index == 0 || middle <= 1 {
            1
        } else {
            u32::from(max_segments).clamp(1, middle) as u16
        };
        let (index, attr) = (self.index, &self.attr);
        let transmit = message_packet(Service::Uc, request, n, index, segments, false, attr);
        self.queue.note_packet();
        self.psn = self.psn.add(segments.into());
        self.index = index.wrapping_add(segments.into());
        if self.index >= request.psns {
            self.index = 0;
            self.queue.advance();
        }
        transmit
    }

    /// The packets of `t`, of request `n`, were not sent: the next packet is the first of them.
    fn return_to<Q: RequestQueue>(&mut self, n: u32, t: &Transmit, q: &Q) {
        self.queue.return_to(n);
        self.psn = t.header.bth.psn;
        self.index = q
            .get(n)
            .map_or(0, |request| self.psn.offset_from(request.first_psn));
    }

    /// Takes request packets.
    #[inline]
    fn receive<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), DropReason> {
        let info = pkt.bth.opcode.info();
        let starts = info.position.is_start();
        let ahead = pkt.bth.psn.distance(self.epsn);
        // IBTA 9.8.2.2: a gap in the PSNs, or a new message before the end of this one, drops this
        // one. The first packet of a message is taken whatever its PSN is.
        if starts || ahead != 0 {
            self.reassembly.restart();
        }
        // The packet follows one of a stale message: it is another of it, or begins the next.
        let stale = self.stale_next.take() == Some(pkt.bth.psn);
        let next = pkt.bth.psn.add(segments.into());
        if self.established && starts && !stale && (-STALE..0).contains(&ahead) {
            self.stale_next = Some(next);
            return Err(DropReason::Duplicate);
        }
        if !starts && self.reassembly.is_idle() {
            self.stale_next = stale.then_some(next);
            return Err(DropReason::OutOfSequence);
        }
        self.epsn = next;
        // A program that receives messages may be about to reply.
        self.autocork.reset();
        if !self.established {
            self.established = true;
            if self.state.is(State::Rtr) {
                self.state.raise(Events::COMM_EST);
            }
        }
        self.place(pkt, segments, payload_len, ops)
            .map_err(|refusal| self.refuse(refusal, pkt, ops))
    }

    /// Carries out the packet, which begins or continues a message.
    #[inline]
    fn place<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let info = pkt.bth.opcode.info();
        // IBTA 9.8.2.2: the payload length depends on the position.
        let pmtu = self.attr.pmtu.bytes() as usize;
        if !info.payload.allows(payload_len as usize, pmtu) {
            return Err(Refusal::Invalid);
        }
        let payload_len = payload_len.saturating_mul(segments.into());
        match info.kind {
            Kind::Send => self.reassembly.send(pkt, payload_len, ops),
            Kind::Write => self
                .reassembly
                .write(self.attr.access, pkt, payload_len, ops),
            // UC has no other requests (IBTA 9.2, Table 38).
            _ => Err(Refusal::Invalid),
        }
    }

    /// A packet is refused. The message is dropped silently, unless the receive request itself is
    /// at fault: then the request completes with an error, and the QP goes to the error state
    /// (IBTA 9.9.3).
    #[cold]
    fn refuse<T: ResponderOps>(
        &mut self,
        refusal: Refusal,
        pkt: &PacketRepr,
        ops: &mut T,
    ) -> DropReason {
        self.reassembly.restart();
        match refusal {
            Refusal::NotReady => DropReason::NoReceive,
            Refusal::NotPresent => DropReason::NotPresent,
            Refusal::TooLong => DropReason::ReceiveTooShort,
            Refusal::Invalid | Refusal::Denied(_) | Refusal::NotInvalidated => DropReason::Refused,
            Refusal::LocalError(_) => {
                self.reassembly.fail_recv(refusal, pkt, ops);
                self.state.enter_error();
                DropReason::Refused
            }
        }
    }
}

/// Whether UC has the operation (IBTA 9.2, Table 38; IBTA 10.8.2.2 for those that send nothing).
#[inline]
fn is_supported(op: &SendOp) -> bool {
    match op {
        SendOp::Send | SendOp::SendImm(_) | SendOp::Write | SendOp::WriteImm(_) => true,
        SendOp::Local => true,
        SendOp::SendInv(_) | SendOp::Read => false,
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => false,
        SendOp::AtomicWrite | SendOp::Flush { .. } => false,
    }
}

impl ConnectedQp for UcQp {
    #[inline]
    fn state(&self) -> State {
        self.state.get()
    }

    #[inline]
    fn attr(&self) -> &Attr {
        &self.attr
    }

    fn modify(&mut self, change: &Modify) -> Result<(), Invalid> {
        match self.state.modify(change, &mut self.attr)? {
            Transition::Reset => {
                let mut reassembly = core::mem::replace(&mut self.reassembly, Reassembly::NEW);
                reassembly.restart();
                *self = UcQp {
                    reassembly,
                    ..UcQp::new()
                };
                return Ok(());
            }
            Transition::Rtr => {
                self.epsn = self.attr.rq_psn;
                self.established = false;
            }
            Transition::Rts => self.psn = self.attr.sq_psn,
            Transition::Error | Transition::Other => {}
        }
        self.note_drained();
        Ok(())
    }

    fn abandon_recv(&mut self) -> bool {
        self.reassembly.abandon_recv()
    }

    #[inline]
    fn poll_transmit<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        if !self.may_send() {
            return None;
        }
        let n = self.queue.next();
        if self.index == 0 && n != q.tail() && self.autocork.is_corked(now, n, q) {
            return None;
        }
        let request = q.get_mut(n)?;
        if self.index == 0 {
            let supported = is_supported(&request.op);
            let valid = request.validate(&self.attr);
            if let Err(status) = valid.and(supported.then_some(()).ok_or(Status::LocQpOp)) {
                self.queue.fail(status);
                return None;
            }
            if request.op.is_local() {
                return None;
            }
            request.start(self.psn, self.attr.pmtu);
        }
        let request = *request;
        Some(self.build(&request, n, max_segments))
    }

    #[inline]
    fn followers<Q: RequestQueue>(&self, transmit: &Transmit, q: &Q) -> u32 {
        match transmit.origin {
            Origin::Request { n } => request_followers(transmit, n, q),
            Origin::Response | Origin::Acknowledge => 0,
        }
    }

    #[inline]
    fn may_transmit<Q: RequestQueue>(&self, q: &Q) -> bool {
        self.may_send() && q.get(self.queue.next()).is_some()
    }

    fn undo<Q: RequestQueue>(&mut self, t: &Transmit, q: &mut Q) {
        if let Origin::Request { n } = t.origin {
            self.return_to(n, t, q);
        }
    }

    // The peer would drop the rest of the message anyway.
    fn lose<Q: RequestQueue>(&mut self, t: &Transmit, q: &Q) -> bool {
        if let Origin::Request { n } = t.origin {
            if let Some(request) = q.get(n).filter(|_| self.queue.next() == n) {
                self.psn = request.end_psn();
                self.index = 0;
                self.queue.advance();
            }
        }
        true
    }

    fn local_error<Q: RequestQueue>(&mut self, t: &Transmit, status: Status, q: &mut Q) {
        if let Origin::Request { n } = t.origin {
            self.return_to(n, t, q);
            self.index = 0;
            self.queue.fail(status);
        }
    }

    #[inline]
    fn poll_local<Q: RequestQueue>(&self, q: &Q) -> Option<u32> {
        let n = self.queue.next();
        let request = q.get(n)?;
        // A key that becomes invalid must not be one that a payload is still to be read with.
        let turn = self.state.is(State::Rts) && self.may_send() && self.is_drained();
        (turn && request.op.is_local() && request.local_error().is_none()).then_some(n)
    }

    fn finish_local<Q: RequestQueue>(&mut self, result: Result<(), Status>, _q: &mut Q) {
        match result {
            Ok(()) => {
                self.queue.advance();
                let _ = self.queue.release();
            }
            Err(status) => self.queue.fail(status),
        }
    }

    // A request completes after a release, whether its payload was lent or copied at once.
    #[inline]
    fn lend(&mut self, _t: &Transmit) {}

    #[inline]
    fn release(&mut self) -> bool {
        let waited = self.queue.release();
        self.note_drained();
        waited
    }

    #[inline]
    fn poll_send_completion<Q: RequestQueue>(&mut self, q: &mut Q) -> Option<SendCompletion> {
        self.queue.poll_completion(&mut self.state, q)
    }

    #[inline]
    fn max_segments<Q: RequestQueue>(&self, pkt: &PacketRepr, payload_len: u32, _q: &Q) -> u16 {
        let expected = pkt.bth.psn == self.epsn && payload_len == self.attr.pmtu.bytes();
        if !expected || pkt.bth.opcode.info().position != Position::Middle {
            return 1;
        }
        let limit = self.reassembly.max_segments(self.attr.pmtu);
        u16::try_from(limit).unwrap_or(u16::MAX).max(1)
    }

    #[inline]
    fn handle_segments<E: RequestQueue + RequesterOps + ResponderOps>(
        &mut self,
        _now: Instant,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        let received = self
            .check_packet(pkt, Service::Uc)
            .and_then(|()| self.receive(pkt, segments, payload_len, env));
        match received {
            Ok(()) => Verdict::Accepted,
            Err(reason) => Verdict::Dropped(reason),
        }
    }

    #[inline]
    fn take_events(&mut self) -> Events {
        self.state.take_events()
    }
}
