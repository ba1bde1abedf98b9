// SPDX-License-Identifier: GPL-2.0

//! One UC queue pair (IBTA 9.8.2, 10.3.1): [`requester`] and [`responder`], which do not know each
//! other, and the state. Nothing is acknowledged or sent again.

mod requester;
mod responder;

use super::common::followers::request_followers;
use super::common::qp_state::{QpState, Transition};
use super::common::{
    Attr, ConnectedQp, DropReason, Events, Instant, Invalid, Modify, Origin, RequestQueue,
    RequesterOps, ResponderOps, SendCompletion, State, Status, Transmit, Verdict,
};
use super::wire::{PacketRepr, Position, Psn, Service};
use super::{common, wire};
use requester::Requester;
use responder::Responder;

/// The protocol state of one UC queue pair.
#[derive(Debug)]
pub struct UcQp {
    state: QpState,
    attr: Attr,
    requester: Requester,
    responder: Responder,
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
            requester: Requester::NEW,
            responder: Responder::NEW,
        }
    }

    /// The PSN of the next packet to be sent, for a query.
    #[inline]
    pub const fn next_psn(&self) -> Psn {
        self.requester.next_psn()
    }

    /// The expected PSN, for a query.
    #[inline]
    pub const fn expected_psn(&self) -> Psn {
        self.responder.expected_psn()
    }

    /// Whether the QP is in SQD and a request that was begun is not sent to its end.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.state.is(State::Sqd) && !self.requester.is_drained()
    }

    /// The time to call [`UcQp::handle_timeout`], as requests are corked until then.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.requester.poll_timeout(self.state.get())
    }

    /// The time is `now`: uncorks requests that have waited long enough. Afterwards
    /// [`UcQp::poll_timeout`] is later than `now`, even if no packet can be sent yet.
    pub fn handle_timeout<Q: RequestQueue>(&mut self, now: Instant, q: &Q) {
        self.requester.handle_timeout(now, q);
    }

    /// Uncorks all requests. The owner calls this, and then [`ConnectedQp::poll_transmit`], before
    /// it resets or destroys the queue pair.
    pub fn flush_delayed(&mut self) {
        self.requester.uncork();
    }

    /// See [`QpState::note_drained`].
    #[inline]
    fn note_drained(&mut self) {
        self.state.note_drained(self.requester.is_drained());
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
        self.check_packet(pkt, Service::Uc)?;
        let first = self.responder.admit(pkt, segments)?;
        // A program that receives messages may be about to reply.
        self.requester.uncork();
        if first && self.state.is(State::Rtr) {
            self.state.raise(Events::COMM_EST);
        }
        let (attr, responder) = (&self.attr, &mut self.responder);
        let Err(refusal) = responder.place(attr, pkt, segments, payload_len, ops) else {
            return Ok(());
        };
        let (reason, ends) = responder.refuse(refusal, pkt, ops);
        if ends {
            self.state.enter_error();
        }
        Err(reason)
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
                self.requester = Requester::NEW;
                self.responder.reset();
                return Ok(());
            }
            Transition::Rtr => self.responder.start(self.attr.rq_psn),
            Transition::Rts => self.requester.start(self.attr.sq_psn),
            Transition::Error | Transition::Other => {}
        }
        self.note_drained();
        Ok(())
    }

    fn abandon_recv(&mut self) -> bool {
        self.responder.abandon_recv()
    }

    #[inline]
    fn poll_transmit<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        let state = self.state.get();
        self.requester.poll(now, state, &self.attr, max_segments, q)
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
        self.requester.may_transmit(self.state.get(), q)
    }

    fn undo<Q: RequestQueue>(&mut self, t: &Transmit, q: &mut Q) {
        self.requester.undo(t, q);
    }

    fn lose<Q: RequestQueue>(&mut self, t: &Transmit, q: &Q) -> bool {
        self.requester.lose(t, q);
        true
    }

    fn local_error<Q: RequestQueue>(&mut self, t: &Transmit, status: Status, q: &mut Q) {
        self.requester.local_error(t, status, q);
    }

    #[inline]
    fn poll_local<Q: RequestQueue>(&self, q: &Q) -> Option<u32> {
        self.requester.local_turn(self.state.get(), q)
    }

    fn finish_local<Q: RequestQueue>(&mut self, result: Result<(), Status>, _q: &mut Q) {
        self.requester.finish_local(result);
    }

    // A request completes after a release, whether its payload was lent or copied at once.
    #[inline]
    fn lend(&mut self, _t: &Transmit) {}

    #[inline]
    fn release(&mut self) -> bool {
        let waited = self.requester.release();
        self.note_drained();
        waited
    }

    #[inline]
    fn poll_send_completion<Q: RequestQueue>(&mut self, q: &mut Q) -> Option<SendCompletion> {
        self.requester.poll_completion(&mut self.state, q)
    }

    #[inline]
    fn max_segments<Q: RequestQueue>(&self, pkt: &PacketRepr, payload_len: u32, _q: &Q) -> u16 {
        let full = payload_len == self.attr.pmtu.bytes();
        if !full || pkt.bth.opcode.info().position != Position::Middle {
            return 1;
        }
        let limit = self.responder.max_segments(pkt.bth.psn, self.attr.pmtu);
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
        match self.receive(pkt, segments, payload_len, env) {
            Ok(()) => Verdict::Accepted,
            Err(reason) => Verdict::Dropped(reason),
        }
    }

    #[inline]
    fn take_events(&mut self) -> Events {
        self.state.take_events()
    }
}
