// SPDX-License-Identifier: GPL-2.0

//! The foreign peer's queue pair.

use super::attr::{Attr, Style};
use super::requester::Requester;
use super::responder::Responder;
use crate::api::*;
use oxe_proto::transport::Origin;
use oxe_proto::wire::PacketRepr;

/// The queue pair.
pub struct Foreign {
    state: State,
    attr: Attr,
    style: Style,
    resources: usize,
    requester: Requester,
    responder: Responder,
    events: Events,
}

impl Foreign {
    /// A queue pair in the reset state, with so many responder resources.
    pub fn new(style: Style, resources: usize) -> Foreign {
        let attr = Attr {
            dest_qpn: 0,
            pkey: 0xffff,
            pmtu: 256,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            max_rd_atomic: 0,
            access: Default::default(),
        };
        Foreign {
            state: State::Reset,
            attr,
            style,
            resources,
            requester: Requester::new(0, style),
            responder: Responder::new(0, style, resources),
            events: Events::NONE,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Changes attributes and the state. Draining is not supported.
    pub fn modify(&mut self, change: &Modify) {
        let a = &mut self.attr;
        a.dest_qpn = change.dest_qpn.unwrap_or(a.dest_qpn);
        a.pkey = change.pkey.unwrap_or(a.pkey);
        a.pmtu = change.pmtu.unwrap_or(a.pmtu);
        a.timeout = change.timeout.unwrap_or(a.timeout);
        a.retry_cnt = change.retry_cnt.unwrap_or(a.retry_cnt);
        a.rnr_retry = change.rnr_retry.unwrap_or(a.rnr_retry);
        a.min_rnr_timer = change.min_rnr_timer.unwrap_or(a.min_rnr_timer);
        a.max_rd_atomic = change.max_rd_atomic.map_or(a.max_rd_atomic, usize::from);
        a.access = change.access.unwrap_or(a.access);
        let state = change.state.unwrap_or(self.state);
        match state {
            State::Reset => *self = Foreign::new(self.style, self.resources),
            State::Err => self.to_error(),
            _ => self.state = state,
        }
        if let (State::Rtr, Some(psn)) = (state, change.rq_psn) {
            self.responder = Responder::new(psn & 0xff_ffff, self.style, self.resources);
        }
        if let (State::Rts, Some(psn)) = (state, change.sq_psn) {
            self.requester = Requester::new(psn & 0xff_ffff, self.style);
        }
    }

    /// The program moves the QP to the error state: the QP sends nothing any more.
    pub fn to_error(&mut self) {
        if self.state != State::Err {
            self.responder.fall_silent();
            self.enter_error();
        }
    }

    fn enter_error(&mut self) {
        if self.state != State::Err {
            self.state = State::Err;
            self.events = self.events.union(Events::ENTERED_ERROR);
        }
    }

    /// The next packet to be sent: the responder's first.
    pub fn poll_transmit<Q: RequestQueue>(&mut self, now: u64, q: &Q) -> Option<Transmit> {
        if let Some(transmit) = self.responder.poll(&self.attr) {
            return Some(transmit);
        }
        if self.state != State::Rts {
            return None;
        }
        let transmit = self.requester.poll(now, &self.attr, q);
        self.note_failure();
        transmit
    }

    fn note_failure(&mut self) {
        if self.requester.has_failed() && self.state != State::Err {
            self.to_error();
        }
    }

    /// Takes a packet.
    pub fn handle_packet<E: RequestQueue + RequesterOps + ResponderOps>(
        &mut self,
        now: u64,
        pkt: &PacketRepr,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        let kind = pkt.bth.opcode.kind();
        if kind.is_response() {
            if self.state != State::Rts {
                return Verdict::Dropped(DropReason::State);
            }
            let verdict = self
                .requester
                .handle(now, &self.attr, pkt, payload_len, env);
            self.note_failure();
            return verdict;
        }
        if !matches!(self.state, State::Rtr | State::Rts) {
            return Verdict::Dropped(DropReason::State);
        }
        let verdict = self.responder.handle(&self.attr, pkt, payload_len, env);
        if self.responder.has_refused() {
            self.enter_error();
        }
        verdict
    }

    /// The memory of a packet could not be read.
    pub fn local_error(&mut self, transmit: &Transmit, status: Status) {
        let psn = transmit.header.bth.psn.get();
        if let Origin::Request { n } = transmit.origin {
            self.requester.cannot_send(n, psn, status);
        } else {
            self.responder.cannot_read(psn);
            self.enter_error();
        }
    }

    /// When [`Foreign::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        let waits = self.state == State::Rts;
        self.requester.deadline().filter(|_| waits)
    }

    pub fn handle_timeout(&mut self, now: u64) {
        if self.state == State::Rts {
            self.requester.handle_timeout(now, &self.attr);
            self.note_failure();
        }
    }

    /// The next completion, in order; in the error state all is flushed.
    pub fn poll_send_completion<Q: RequestQueue>(&mut self, q: &Q) -> Option<SendCompletion> {
        self.requester.completion(self.state == State::Err, q)
    }

    pub fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Whether a receive is in use whose message will not be finished.
    pub fn abandon_recv(&mut self) -> bool {
        self.responder.abandon_recv()
    }

    /// The PSN that a new request will have, and the one that is expected.
    pub fn psns(&self) -> (u32, u32) {
        (self.requester.next_psn(), self.responder.expected_psn())
    }
}
