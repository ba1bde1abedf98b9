// SPDX-License-Identifier: GPL-2.0

//! One RC queue pair: its requester, responder and state (IBTA 9.7, 10.3.1).

mod keeping;
mod reaction;
mod timeouts;
mod turns;

use super::common::qp_state::{QpState, Transition};
use super::common::{
    Attr, ConnectedQp, DropReason, Events, Instant, Invalid, Modify, Origin, ReactionPoint,
    RequestQueue, RequesterOps, ResponderOps, SendCompletion, State, Status, Transmit, Verdict,
};
use super::lent::Lent;
use super::requester::cwnd::standard::Standard;
use super::requester::cwnd::CongestionControl;
use super::requester::{EventCounts, Requester};
use super::responder::resource::Resource;
use super::responder::Responder;
use super::wire::{PacketRepr, Position, Psn, Service};

/// The protocol state of one RC queue pair. `R` is the storage for responder resources, which
/// hold READs and atomics of the peer; its length is `max_dest_rd_atomic`, at most 256. `C` is the
/// congestion controller.
#[derive(Debug)]
pub struct Connection<R, C = Standard> {
    state: QpState,
    attr: Attr,
    requester: Requester<C>,
    responder: Responder<R>,
    reaction: ReactionPoint,
    lent: Lent,
    /// In the next poll the requester has its turn before the responder.
    requester_next: bool,
    /// Responses sent since the requester had its turn.
    responses: u8,
    /// See [`Connection::keep_responses`] and [`Connection::keep_requests`].
    keeps_responses: bool,
    keeps_requests: bool,
}

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// A queue pair in the reset state.
    pub fn new(resources: R) -> Self {
        Connection {
            state: QpState::RESET,
            attr: Attr::DEFAULT,
            requester: Requester::new(Psn::ZERO),
            responder: Responder::new(resources),
            reaction: ReactionPoint::NONE,
            lent: Lent::NONE,
            requester_next: false,
            responses: 0,
            keeps_responses: true,
            keeps_requests: true,
        }
    }

    /// So many request packets, and packets of READ responses, were acknowledged.
    #[cfg(test)]
    pub(in super::super) fn open_windows(&mut self, requests: u32, responses: u32) {
        self.requester.open_windows(requests, responses);
    }

    /// The send half, for queries.
    #[inline]
    pub fn requester(&self) -> &Requester<C> {
        &self.requester
    }

    /// The events of the send half since the last call, if there are any. A reset forgets them.
    #[inline]
    pub fn take_counts(&mut self) -> Option<EventCounts> {
        self.requester.take_counts()
    }

    /// The receive half, for queries.
    #[inline]
    pub fn responder(&self) -> &Responder<R> {
        &self.responder
    }

    /// Whether there is no completion nor event to be polled for, and the QP is not in error.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        !self.requester.has_completion() && !self.requester.has_failed() && self.state.is_quiet()
    }

    /// Whether the QP is in SQD and requests that were begun are not complete yet.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.state.is(State::Sqd) && !self.is_drained()
    }

    /// Whether the requests that were begun are complete, and their memory is the consumer's again.
    #[inline]
    fn is_drained(&self) -> bool {
        self.requester.is_drained() && !self.lent.is_any()
    }

    /// Goes to the error state: no packet is sent or taken any more, not even a due one, except for
    /// an ACK. [`Connection::poll_send_completion`] flushes from now on.
    ///
    /// Does nothing in the error state, so that a NAK which took the QP there still goes out.
    pub fn to_error(&mut self) {
        if self.state.enter_error() {
            self.responder.quiesce();
        }
    }

    /// Goes to the reset state and drops everything, attributes included. Requests count from 0
    /// again. [`Connection::abandon_recv`] still reports a receive request in use.
    pub fn reset(&mut self) {
        self.state = QpState::RESET;
        self.attr = Attr::DEFAULT;
        self.restart_requester(Psn::ZERO);
        self.responder.restart(Psn::ZERO);
        self.reaction = self.reaction.restarted();
        self.lent = Lent::NONE;
        self.requester_next = false;
        self.responses = 0;
    }

    /// Replaces the storage for responder resources; returns the old one. Allowed at any time. The
    /// indices (`res`) change: the owner drops the keys that it keeps under them, and looks them up
    /// again from [`Payload::Read`](super::common::Payload::Read).
    pub fn replace_resources(&mut self, resources: R) -> R {
        self.responder.replace_resources(resources)
    }

    /// Whether an ACK or NAK will be the next packet, unless a response to a READ or atomic is due.
    #[inline]
    pub(in super::super) fn ack_is_due(&self) -> bool {
        self.responder.ack_is_due()
    }

    /// Processes a packet for this QP, with `payload_len` bytes of payload, which `env` can access.
    /// The caller has checked everything below the transport: address, length, ICRC.
    #[inline]
    pub fn handle_packet<E: RequestQueue + RequesterOps + ResponderOps>(
        &mut self,
        now: Instant,
        pkt: &PacketRepr,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        self.handle_segments(now, pkt, 1, payload_len, env)
    }

    #[inline]
    fn handle_response<E: RequestQueue + RequesterOps>(
        &mut self,
        now: Instant,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        if !self.state.get().requests() {
            return Verdict::Dropped(DropReason::State);
        }
        let verdict =
            self.requester
                .handle_response(now, &self.attr, pkt, segments, payload_len, env);
        self.note_failure();
        self.note_drained();
        self.heed_becn(now, pkt, verdict)
    }

    /// Raises the event for the first request packet on a QP that cannot send yet.
    #[cold]
    fn note_established(&mut self) {
        if self.responder.note_established() {
            self.state.raise(Events::COMM_EST);
        }
    }

    /// A request that failed takes the QP to the error state (IBTA 10.3.1, RC).
    #[inline]
    fn note_failure(&mut self) {
        if self.requester.has_failed() {
            self.to_error();
        }
    }

    /// See [`QpState::note_drained`].
    #[inline]
    fn note_drained(&mut self) {
        self.state.note_drained(self.is_drained());
    }
}

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> ConnectedQp
    for Connection<R, C>
{
    #[inline]
    fn state(&self) -> State {
        self.state.get()
    }

    #[inline]
    fn attr(&self) -> &Attr {
        &self.attr
    }

    #[inline]
    fn reacts(&self) -> bool {
        self.reaction.reacts()
    }

    fn modify(&mut self, change: &Modify) -> Result<(), Invalid> {
        match self.state.modify(change, &mut self.attr)? {
            Transition::Reset => {
                self.reset();
                return Ok(());
            }
            Transition::Rtr => self.responder.restart(self.attr.rq_psn),
            Transition::Rts => self.restart_requester(self.attr.sq_psn),
            Transition::Error => self.responder.quiesce(),
            Transition::Other => {}
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
        // No timer runs for a connection in the error state: its last responses and its NAK, which
        // are few, are sent at once.
        if self.reaction.is_limited() && !self.responder.is_closing() {
            return self.poll_limited(now, max_segments, q);
        }
        self.poll_halves(now, max_segments, q)
    }

    #[inline]
    fn followers<Q: RequestQueue>(&self, transmit: &Transmit, q: &Q) -> u32 {
        self.count_followers(transmit, q)
    }

    #[inline]
    fn poll_local<Q: RequestQueue>(&self, q: &Q) -> Option<u32> {
        if !self.state.get().requests() || self.state.is(State::Sqd) {
            return None;
        }
        self.requester.local_turn(q)
    }

    fn finish_local<Q: RequestQueue>(&mut self, result: Result<(), Status>, q: &mut Q) {
        self.requester.finish_local(result, q);
    }

    #[inline]
    fn may_transmit<Q: RequestQueue>(&self, q: &Q) -> bool {
        let responds = self.state.get().responds() || self.responder.is_closing();
        responds && self.responder.may_transmit()
            || self.state.get().requests() && self.requester.may_transmit(q)
    }

    // This costs no retry. The other half has its turn, as the payload may be missing for long.
    fn undo<Q: RequestQueue>(&mut self, t: &Transmit, q: &mut Q) {
        self.reaction.on_undo();
        self.requester_next = !matches!(t.origin, Origin::Request { .. });
        match t.origin {
            Origin::Request { n } if self.state.get().requests() => {
                self.requester.undo(n, t.header.bth.psn, q);
            }
            Origin::Response if self.state.get().responds() || self.responder.is_closing() => {
                self.responder.undo_response(t.header.bth.psn);
            }
            Origin::Acknowledge if self.state.get().responds() => {
                self.responder.undo_ack(&t.header)
            }
            // The NAK with which this side's responder ended the connection.
            Origin::Acknowledge if self.state.is(State::Err) => self.responder.undo_ack(&t.header),
            _ => {}
        }
    }

    // The requester's timer recovers a request. The peer asks for responses to READs and atomics
    // again (IBTA 9.7.5.1.3), so all that are due are dropped.
    fn lose<Q: RequestQueue>(&mut self, t: &Transmit, _q: &Q) -> bool {
        let responds = !matches!(t.origin, Origin::Request { .. });
        if responds {
            self.responder.lose_responses();
        }
        responds
    }

    // For the response to a READ the peer gets a NAK (remote access error) and the QP goes to the
    // error state.
    fn local_error<Q: RequestQueue>(&mut self, t: &Transmit, status: Status, q: &mut Q) {
        let psn = t.header.bth.psn;
        match t.origin {
            Origin::Request { n } if self.state.get().requests() => {
                self.requester.local_error(n, psn, status, q);
            }
            Origin::Response => {
                let lives = self.state.get().responds();
                let may = lives || self.responder.is_closing();
                if may && self.responder.local_error(psn) && lives {
                    self.state.raise(Events::ACCESS_ERR);
                    self.state.enter_error();
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn lend(&mut self, t: &Transmit) {
        self.lent.lend(t);
    }

    #[inline]
    fn release(&mut self) -> bool {
        if !self.lent.is_any() {
            return false;
        }
        let held = self
            .lent
            .is_acknowledged(self.requester.first_unacknowledged());
        self.lent = Lent::NONE;
        self.note_drained();
        held || matches!(self.state.get(), State::Err | State::Sqd)
    }

    #[inline]
    fn max_segments<Q: RequestQueue>(&self, pkt: &PacketRepr, payload_len: u32, q: &Q) -> u16 {
        let info = pkt.bth.opcode.info();
        if info.position != Position::Middle || payload_len != self.attr.pmtu.bytes() {
            return 1;
        }
        let psn = pkt.bth.psn;
        let limit = if info.kind.is_response() {
            self.requester.max_segments(psn, q)
        } else {
            self.responder.max_segments(psn, self.attr.pmtu)
        };
        u16::try_from(limit).unwrap_or(u16::MAX).max(1)
    }

    #[inline]
    fn handle_segments<E: RequestQueue + RequesterOps + ResponderOps>(
        &mut self,
        now: Instant,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        if let Err(reason) = self.check_packet(pkt, Service::Rc) {
            return self.refuse(now, reason);
        }
        let info = pkt.bth.opcode.info();
        if info.kind.is_response() {
            return self.handle_response(now, pkt, segments, payload_len, env);
        }
        if self
            .lent
            .is_acknowledged(self.requester.first_unacknowledged())
        {
            return Verdict::Dropped(DropReason::EarlyAck);
        }
        if self.state.is(State::Rtr) {
            self.note_established();
        }
        // A program that receives requests may be about to reply.
        self.requester.uncork();
        let attr = &self.attr;
        let (verdict, event) =
            self.responder
                .handle_request(now, attr, pkt, segments, payload_len, env);
        self.state.raise(event);
        if self.responder.is_closing() {
            self.state.enter_error();
        }
        self.heed_becn(now, pkt, verdict)
    }

    #[inline]
    fn poll_send_completion<Q: RequestQueue>(&mut self, q: &mut Q) -> Option<SendCompletion> {
        // To flush is to give back memory, too, which a response may be read from.
        let flushes = self.state.is(State::Err) && self.lent.is_any();
        if flushes || self.lent.holds(self.requester.next_completion()) {
            return None;
        }
        self.requester.poll_completion(self.state.is(State::Err), q)
    }

    #[inline]
    fn take_events(&mut self) -> Events {
        self.state.take_events()
    }
}
