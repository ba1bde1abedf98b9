// SPDX-License-Identifier: GPL-2.0

//! A foreign peer: a stock RC queue pair, written from the specification (IBTA chapter 9) and
//! independent of the transport of oxe, of which it uses the headers and the types of the interface
//! alone.
//!
//! It does what oxe does not, and what it may: it asks for a READ as a whole, keeps a fixed window,
//! goes back to the last acknowledged packet and sends all again, repeats a READ from its
//! beginning, acknowledges packets that do not ask for it, advertises credits, and acknowledges a
//! duplicate across responses that may be lost.

mod request_packet;
mod requester;
mod resources;
mod responder;

use crate::api::*;
use crate::rng::Rng;
use oxe_proto::transport::Origin;
use oxe_proto::wire::{BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn};
use requester::Requester;
use responder::Responder;

/// The choices that the specification leaves to an implementation.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Request packets in flight, at most.
    pub window: u64,
    /// AckReq stands in every packet whose number is a multiple of this, besides the last of each
    /// message.
    pub ack_every: u64,
    /// A READ that was answered in part is asked for from its beginning again.
    pub restarts_reads: bool,
    /// Packets are acknowledged that do not ask for it.
    pub eager_acks: bool,
    /// The credit code of ACKs (IBTA 9.7.7.2, Table 48).
    pub credit: u8,
}

impl Style {
    /// Draws any style that is allowed.
    pub fn draw(rng: &mut Rng) -> Style {
        Style {
            window: rng.pick(&[1, 8, 64, 1024]),
            ack_every: rng.pick(&[1, 4, 32]),
            restarts_reads: rng.one_in(3),
            eager_acks: rng.one_in(3),
            credit: rng.pick(&[0x1f, 0x1f, 0, 1, 30]),
        }
    }
}

/// The attributes of the queue pair, as the program set them.
#[derive(Clone, Copy, Debug)]
struct Attr {
    dest_qpn: u32,
    pkey: u16,
    pmtu: u32,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    min_rnr_timer: u8,
    max_rd_atomic: usize,
    access: oxe_proto::transport::RemoteAccess,
}

impl Attr {
    fn bth(&self, opcode: Opcode, psn: u32, payload_len: u32) -> BthRepr {
        let dest = Qpn::new(self.dest_qpn);
        let mut bth = BthRepr::new(opcode, PKey::new(self.pkey), dest, Psn::new(psn));
        bth.pad = (payload_len.wrapping_neg() & 3) as u8;
        bth
    }

    fn packets(&self, len: u32) -> u64 {
        u64::from(len.div_ceil(self.pmtu)).max(1)
    }
}

/// The packet count that `psn` stands for, which is less than 2^23 from `near`, a count whose PSN
/// is `near_psn`; `None` for one before the first.
fn unwrap_psn(psn: u32, near_psn: u32, near: u64) -> Option<u64> {
    let ahead = psn.wrapping_sub(near_psn) & 0xff_ffff;
    if ahead < 1 << 23 {
        near.checked_add(ahead.into())
    } else {
        near.checked_sub(u64::from(0x100_0000 - ahead))
    }
}

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

/// Makes a packet.
fn packet(bth: BthRepr, ext: Ext, payload: Payload, origin: Origin) -> Transmit {
    Transmit {
        header: PacketRepr { bth, ext },
        payload,
        origin,
        segments: 1,
    }
}
