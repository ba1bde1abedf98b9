// SPDX-License-Identifier: GPL-2.0

//! The requester of UC: segmentation of what the QP sends (IBTA 9.8.2).

use super::common::autocork::Autocork;
use super::common::message_packet::message_packet;
use super::common::qp_state::QpState;
use super::common::unreliable::UnreliableQueue;
use super::common::{
    Attr, Instant, Origin, Request, RequestQueue, SendCompletion, SendOp, State, Status, Transmit,
};
use super::wire::{Psn, Service};

/// The send side of a UC queue pair.
#[derive(Debug)]
pub(super) struct Requester {
    queue: UnreliableQueue,
    autocork: Autocork,
    /// The packet to send next: its index in the message of the first request that is not sent to
    /// its end, and its PSN.
    index: u32,
    psn: Psn,
}

impl Requester {
    /// A requester that has sent nothing.
    pub(super) const NEW: Self = Requester {
        queue: UnreliableQueue::NEW,
        autocork: Autocork::NEW,
        index: 0,
        psn: Psn::ZERO,
    };

    /// The first packet will have this PSN.
    pub(super) fn start(&mut self, psn: Psn) {
        self.psn = psn;
    }

    /// The PSN of the next packet.
    #[inline]
    pub(super) const fn next_psn(&self) -> Psn {
        self.psn
    }

    /// Whether every request that was begun is sent, and its payload is not needed any more.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.index == 0 && self.queue.is_released()
    }

    /// The time to call [`Requester::handle_timeout`], as requests are corked until then.
    #[inline]
    pub(super) fn poll_timeout(&self, state: State) -> Option<Instant> {
        self.autocork.deadline().filter(|_| self.may_send(state))
    }

    /// The time is `now`: uncorks requests that have waited long enough.
    pub(super) fn handle_timeout<Q: RequestQueue>(&mut self, now: Instant, q: &Q) {
        self.autocork.handle_timeout(now, self.queue.next(), q);
    }

    /// Uncorks all requests, and forgets that they were posted in a streak.
    #[inline]
    pub(super) fn uncork(&mut self) {
        self.autocork.reset();
    }

    /// Whether a packet of the next request may be sent: in SQD only if the request was begun.
    #[inline]
    fn may_send(&self, state: State) -> bool {
        let state = match state {
            State::Rts => true,
            State::Sqd => self.index != 0,
            _ => false,
        };
        state && !self.queue.has_failed()
    }

    /// Whether there may be a packet to send.
    #[inline]
    pub(super) fn may_transmit<Q: RequestQueue>(&self, state: State, q: &Q) -> bool {
        self.may_send(state) && q.get(self.queue.next()).is_some()
    }

    /// The next packet, or up to `max_segments` segments.
    #[inline]
    pub(super) fn poll<Q: RequestQueue>(
        &mut self,
        now: Instant,
        state: State,
        attr: &Attr,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        if !self.may_send(state) {
            return None;
        }
        let n = self.queue.next();
        if self.index == 0 && n != q.tail() && self.autocork.is_corked(now, n, q) {
            return None;
        }
        let request = q.get_mut(n)?;
        if self.index == 0 {
            let supported = is_supported(&request.op);
            let valid = request.validate(attr);
            if let Err(status) = valid.and(supported.then_some(()).ok_or(Status::LocQpOp)) {
                self.queue.fail(status);
                return None;
            }
            if request.op.is_local() {
                return None;
            }
            request.start(self.psn, attr.pmtu);
        }
        let request = *request;
        Some(self.build(&request, n, attr, max_segments))
    }

    /// Packet `self.index` of `request`, or up to `max_segments` middle packets from there on.
    #[inline]
    fn build(&mut self, request: &Request, n: u32, attr: &Attr, max_segments: u16) -> Transmit {
        let middle = request.psns.saturating_sub(1).saturating_sub(self.index);
        let segments = if self.index == 0 || middle <= 1 {
            1
        } else {
            u32::from(max_segments).clamp(1, middle) as u16
        };
        let index = self.index;
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

    /// The packets of `t` were not sent: they are the next ones again.
    pub(super) fn undo<Q: RequestQueue>(&mut self, t: &Transmit, q: &Q) {
        if let Origin::Request { n } = t.origin {
            self.return_to(n, t, q);
        }
    }

    /// The packets of `t` count as lost on the wire. The peer would drop the rest of the message.
    pub(super) fn lose<Q: RequestQueue>(&mut self, t: &Transmit, q: &Q) {
        if let Origin::Request { n } = t.origin {
            if let Some(request) = q.get(n).filter(|_| self.queue.next() == n) {
                self.psn = request.end_psn();
                self.index = 0;
                self.queue.advance();
            }
        }
    }

    /// The payload of `t` could not be read: its request completes with `status`.
    pub(super) fn local_error<Q: RequestQueue>(&mut self, t: &Transmit, status: Status, q: &Q) {
        if let Origin::Request { n } = t.origin {
            self.return_to(n, t, q);
            self.index = 0;
            self.queue.fail(status);
        }
    }

    /// The request whose turn it is, if it sends nothing.
    #[inline]
    pub(super) fn local_turn<Q: RequestQueue>(&self, state: State, q: &Q) -> Option<u32> {
        let n = self.queue.next();
        let request = q.get(n)?;
        // A key that becomes invalid must not be one that a payload is still to be read with.
        let turn = state == State::Rts && self.may_send(state) && self.is_drained();
        (turn && request.op.is_local() && request.local_error().is_none()).then_some(n)
    }

    /// The request that [`Requester::local_turn`] named was carried out, or has failed.
    pub(super) fn finish_local(&mut self, result: Result<(), Status>) {
        match result {
            Ok(()) => {
                self.queue.advance();
                let _ = self.queue.release();
            }
            Err(status) => self.queue.fail(status),
        }
    }

    /// See [`UnreliableQueue::release`].
    #[inline]
    pub(super) fn release(&mut self) -> bool {
        self.queue.release()
    }

    /// See [`UnreliableQueue::poll_completion`].
    #[inline]
    pub(super) fn poll_completion<Q: RequestQueue>(
        &mut self,
        state: &mut QpState,
        q: &Q,
    ) -> Option<SendCompletion> {
        self.queue.poll_completion(state, q)
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
