// SPDX-License-Identifier: GPL-2.0

//! The responder of a reliable connection: carries out request packets in order, and responds
//! (IBTA 9.7.4, 9.7.5).
//!
//! Each packet passes the checks of IBTA 9.7.4.1 in this order: sequence number, opcode sequence,
//! support for the operation, length, receive request or key. A packet that fails a check gets a
//! NAK, or no response at all, and is not carried out. SENDs and WRITEs are in `reassembly`, READs
//! and atomics in `rd_atomic`, ATOMIC WRITEs and FLUSHes in `placement`, duplicates in `duplicate`;
//! `response` makes responses and acknowledgements.

mod acknowledge;
pub mod ahead;
pub mod delayed_ack;
mod duplicate;
mod gap;
mod placement;
mod rd_atomic;
pub mod resource;
mod response;

use super::common::reassembly::{Reassembly, Refusal};
use super::common::{AccessError, Attr, DropReason, Events, Instant, Pmtu, ResponderOps, Verdict};
use super::wire::{Kind, NakCode, PacketRepr, Psn, RnrTimer, Syndrome};
use super::{common, wire};
use acknowledge::Acknowledger;
use ahead::Ahead;
use resource::{Resource, ResourceRing};

/// The receive side of a connection. `R` is the storage for responder resources.
#[derive(Debug)]
pub struct Responder<R> {
    /// The expected PSN: that of the next new request packet.
    epsn: Psn,
    /// Requests completed (IBTA 9.7.7.1). A READ counts when it is accepted.
    msn: u32,
    reassembly: Reassembly,
    /// A NAK asked the peer to retransmit from `epsn` on. No other NAK is sent until it does.
    nak_sent: bool,
    /// A gap is known, at `epsn` or behind it, or `nak_sent`.
    gap_known: bool,
    /// The furthest PSN that came out of sequence since then.
    furthest: Option<Psn>,
    ahead: Ahead,
    ack: Acknowledger,
    /// The connection has ended, except for the packets that are still due: responses, a delayed
    /// ACK, or the NAK that reports the end.
    closing: bool,
    /// The first packet has arrived.
    established: bool,
    /// The last PSN of the newest READ or atomic, if there was any.
    last_response: Option<Psn>,
    ring: ResourceRing<R>,
}

/// The NAK that ends the connection, as a packet is refused. The events are due unless a completion
/// informs the consumer. `None` for an RNR NAK.
#[cold]
fn fatal_nak(refusal: Refusal) -> Option<(NakCode, Events)> {
    Some(match refusal {
        Refusal::NotReady | Refusal::NotPresent | Refusal::Denied(AccessError::NotPresent) => {
            return None;
        }
        Refusal::Invalid | Refusal::Denied(AccessError::Misaligned) => {
            (NakCode::InvalidRequest, Events::REQ_ERR)
        }
        Refusal::Denied(AccessError::Access) => (NakCode::RemoteAccess, Events::ACCESS_ERR),
        Refusal::Denied(AccessError::Op) => (NakCode::RemoteOperational, Events::FATAL),
        // IBTA 9.9.3: a message too long for its buffer is an invalid request.
        Refusal::TooLong => (NakCode::InvalidRequest, Events::NONE),
        Refusal::LocalError(_) => (NakCode::RemoteOperational, Events::NONE),
        Refusal::NotInvalidated => (NakCode::RemoteAccess, Events::NONE),
    })
}

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// A responder that has received nothing.
    pub(super) fn new(resources: R) -> Self {
        Responder {
            epsn: Psn::ZERO,
            msn: 0,
            reassembly: Reassembly::NEW,
            nak_sent: false,
            gap_known: false,
            furthest: None,
            ahead: Ahead::NEW,
            ack: Acknowledger::NEW,
            closing: false,
            established: false,
            last_response: None,
            ring: ResourceRing::new(resources),
        }
    }

    /// Drops all state and expects `psn`.
    pub(super) fn restart(&mut self, psn: Psn) {
        self.epsn = psn;
        self.msn = 0;
        self.reassembly.restart();
        self.nak_sent = false;
        self.gap_known = false;
        self.furthest = None;
        self.ahead.clear();
        self.ack = Acknowledger::NEW;
        self.closing = false;
        self.established = false;
        self.last_response = None;
        self.ring.clear();
    }

    /// Sends nothing any more but an ACK, due or delayed: the requests that it acknowledges were
    /// carried out, and the consumer has their completions. It is not sent before a response that
    /// is due and dropped, as it would acknowledge that one as well (IBTA 9.7.5.1.1).
    pub(super) fn quiesce(&mut self) {
        self.closing = self.ack.is_ack_due() && self.ring.is_idle();
        self.flush_delayed_ack();
        if !self.closing {
            self.ack.cancel();
        }
        self.ahead.clear();
        self.ring.quiesce();
    }

    /// Makes a delayed ACK due at once.
    #[inline]
    pub(super) fn flush_delayed_ack(&mut self) {
        self.ack.flush_delayed();
    }

    /// This side's requester begins a request, which a delayed ACK follows.
    #[inline]
    pub(super) fn on_request(&mut self, now: Instant) {
        self.ack.on_request(now);
    }

    /// Makes an ACK of all messages that were received due at once, as this side's requester is
    /// about to send: the peer's requests complete before it handles what this side's program sends
    /// in reply. Returns whether it goes first: responses do, which an ACK must not overtake
    /// (IBTA 9.7.5.1).
    #[inline]
    pub(super) fn acknowledge_first(&mut self) -> bool {
        if !self.ack.has_unacked() || !self.ring.is_idle() {
            return false;
        }
        self.ack.acknowledge_before(self.epsn);
        true
    }

    /// Whether the connection has ended, except for the packets that are still due.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether packets are left to be sent, now or later.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        self.ack.is_due() || !self.ring.is_idle()
    }

    /// Whether packets are to be sent now.
    #[inline]
    pub(super) fn may_transmit(&self) -> bool {
        self.ack.is_due_now() || !self.ring.is_idle()
    }

    /// Whether the next packet, if there is one, is the response to a READ or an atomic.
    #[inline]
    pub(super) fn sends_response_next(&self) -> bool {
        !self.ring.is_idle()
    }

    /// Whether an ACK or NAK will be the next packet, unless a response to a READ or atomic is due.
    #[inline]
    pub(super) fn ack_is_due(&self) -> bool {
        self.ack.is_due_now()
    }

    /// When the ACK that is delayed is due.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.ack.deadline()
    }

    /// A delayed ACK whose deadline has passed is due now, though responses may go first.
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.ack.handle_timeout(now);
    }

    /// A packet has arrived. Returns whether it is the first one.
    #[inline]
    pub(super) fn note_established(&mut self) -> bool {
        !core::mem::replace(&mut self.established, true)
    }

    /// See [`Connection::replace_resources`](super::Connection::replace_resources).
    pub(super) fn replace_resources(&mut self, resources: R) -> R {
        self.ring.replace(resources)
    }

    /// How many packets of the response of this resource are still to be sent, without the last
    /// one.
    #[inline]
    pub(super) fn middle_left(&self, res: u8) -> u32 {
        self.ring.middle_left(res)
    }

    /// How many responses may have packets to send.
    #[inline]
    pub(super) fn responses_due(&self) -> u32 {
        self.ring.due()
    }

    /// The expected PSN, as a query of the QP shows it.
    pub fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Drops the message in progress. Returns whether a receive request was in use, which will not
    /// be completed: `true` once for each.
    pub fn abandon_recv(&mut self) -> bool {
        self.reassembly.abandon_recv()
    }

    /// How many middle packets may be taken at a time; `psn` is that of the first.
    #[inline]
    pub(super) fn max_segments(&self, psn: Psn, pmtu: Pmtu) -> u32 {
        if psn != self.epsn {
            return 1;
        }
        self.reassembly.max_segments(pmtu)
    }

    /// Takes a request packet with `payload_len` bytes of payload, or `segments` of them, no more
    /// than [`Responder::max_segments`] says. Also returns the events for the consumer, and sets
    /// `closing` when the connection has ended.
    #[inline]
    pub(super) fn handle_request<T: ResponderOps>(
        &mut self,
        now: Instant,
        attr: &Attr,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        ops: &mut T,
    ) -> (Verdict, Events) {
        // IBTA 9.7.4.1.2: expected, duplicate or out of sequence.
        let ahead = pkt.bth.psn.distance(self.epsn);
        if ahead < 0 {
            return (self.duplicate(attr, pkt, ops), Events::NONE);
        }
        if ahead > 0 {
            let verdict = self.out_of_sequence(attr, pkt, payload_len, ops);
            return (verdict, Events::NONE);
        }
        match self.execute(now, attr, pkt, segments, payload_len, ops) {
            Ok(()) => (Verdict::Accepted, Events::NONE),
            Err(refusal) => self.refuse(attr, refusal),
        }
    }

    /// Sends a NAK for the expected packet, which is refused.
    #[cold]
    fn refuse(&mut self, attr: &Attr, refusal: Refusal) -> (Verdict, Events) {
        self.ahead.clear();
        let Some((code, events)) = fatal_nak(refusal) else {
            self.nak_sent = true;
            self.gap_known = true;
            let timer = RnrTimer::new(attr.min_rnr_timer);
            self.ack.set(Syndrome::RnrNak { timer }, self.epsn);
            let reason = match refusal {
                Refusal::NotReady => DropReason::NotReady,
                _ => DropReason::NotPresent,
            };
            return (Verdict::Dropped(reason), Events::NONE);
        };
        self.close(code, self.epsn);
        (Verdict::Dropped(DropReason::Refused), events)
    }

    /// Ends the connection with this NAK, which is sent after the responses to earlier requests.
    #[cold]
    fn close(&mut self, code: NakCode, psn: Psn) {
        self.closing = true;
        self.ack.set(Syndrome::Nak { code }, psn);
    }

    /// Sends a NAK that asks for the expected packet.
    #[cold]
    pub(super) fn report_gap(&mut self) {
        self.nak_sent = true;
        self.gap_known = true;
        self.ahead.open();
        let code = NakCode::PsnSequence;
        self.ack.set(Syndrome::Nak { code }, self.epsn);
    }

    /// Whether a NAK that asks for the expected packet is due and was not sent yet.
    #[inline]
    fn is_nak_due(&self) -> bool {
        self.nak_sent && self.ack.is_due_at(self.epsn)
    }

    /// Carries out the expected packet, or the segments that it begins.
    #[inline]
    fn execute<T: ResponderOps>(
        &mut self,
        now: Instant,
        attr: &Attr,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let info = pkt.bth.opcode.info();
        // IBTA 9.7.4.1.6: the payload length depends on the position.
        if !info
            .payload
            .allows(payload_len as usize, attr.pmtu.bytes() as usize)
        {
            return Err(Refusal::Invalid);
        }
        let payload_len = payload_len.saturating_mul(segments.into());
        let taken = match info.kind {
            Kind::Send => self.reassembly.send(pkt, payload_len, ops),
            Kind::Write => self.reassembly.write(attr.access, pkt, payload_len, ops),
            Kind::ReadRequest => return self.execute_read(attr, pkt, ops),
            Kind::CompareSwap | Kind::FetchAdd => return self.execute_atomic(attr, pkt, ops),
            _ => return self.execute_placement(attr, pkt, ops),
        };
        if let Err(refusal) = taken {
            self.reassembly.fail_recv(refusal, pkt, ops);
            return Err(refusal);
        }
        // A NAK that asked for this packet and was not sent yet becomes an ACK, since it may have
        // replaced an ACK that was due.
        let was_nak = self.is_nak_due();
        let ends = info.position.is_end();
        let begin = self.epsn;
        let end = begin.add(segments.into());
        if pkt.bth.ack_req || was_nak {
            self.ack.set_ack(now, end.prev(), ends && !was_nak);
        }
        self.epsn = end;
        if self.gap_known {
            self.close_gap(begin, pkt.bth.ack_req, was_nak);
        }
        if ends {
            self.ack.on_message(end);
            self.count_message();
        }
        Ok(())
    }

    fn count_message(&mut self) {
        self.msn = self.msn.wrapping_add(1) & Psn::MASK;
    }
}
