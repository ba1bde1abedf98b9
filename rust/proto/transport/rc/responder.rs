// SPDX-License-Identifier: GPL-2.0

//! The responder of a reliable connection: carries out request packets in order, and responds
//! (IBTA 9.7.4, 9.7.5).
//!
//! Each packet passes the checks of IBTA 9.7.4.1 in this order: sequence number, opcode sequence,
//! support for the operation, length, receive request or key. A packet that fails a check gets a
//! NAK, or no response at all, and is not carried out. SENDs and WRITEs are in `reassembly`, READs
//! and atomics in `rd_atomic`, ATOMIC WRITEs and FLUSHes in `placement`, duplicates in `duplicate`;
//! `response` makes responses and acknowledgements.

pub mod delayed_ack;
mod duplicate;
mod placement;
mod rd_atomic;
pub mod resource;
mod response;

use super::common::reassembly::{Reassembly, Refusal};
use super::common::{AccessError, Attr, DropReason, Events, Instant, Pmtu, ResponderOps, Verdict};
use super::wire::{Kind, NakCode, PacketRepr, Psn, RnrTimer, Syndrome};
use super::{common, wire};
use delayed_ack::DelayedAck;
use resource::{Resource, ResourceRing};

/// The ACK or NAK that is due after the responses to READs and atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledge {
    pub(super) syndrome: Syndrome,
    pub(super) psn: Psn,
    /// When it is due, if it is delayed (see `delayed_ack`); otherwise it is due now.
    pub(super) deadline: Option<Instant>,
}

/// The receive side of a connection. `R` is the storage for responder resources.
#[derive(Debug)]
pub struct Responder<R> {
    /// The expected PSN: that of the next new request packet.
    pub(super) epsn: Psn,
    /// Requests completed (IBTA 9.7.7.1). A READ counts when it is accepted.
    pub(super) msn: u32,
    reassembly: Reassembly,
    /// A NAK asked the peer to retransmit from `epsn` on. No other NAK is sent until it does.
    pub(super) nak_sent: bool,
    /// The furthest PSN that was dropped as out of sequence since then.
    furthest: Option<Psn>,
    pub(super) acknowledge: Option<Acknowledge>,
    pub(super) delayed_ack: DelayedAck,
    /// One past the last packet of the newest SEND or WRITE, if that is not acknowledged yet.
    pub(super) unacked: Option<Psn>,
    /// The connection has ended, except for the packets that are still due: responses, a delayed
    /// ACK, or the NAK that reports the end.
    pub(super) closing: bool,
    /// The first packet has arrived.
    pub(super) established: bool,
    /// The last PSN of the newest READ or atomic, if there was any.
    pub(super) last_response: Option<Psn>,
    pub(super) ring: ResourceRing<R>,
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
            furthest: None,
            acknowledge: None,
            delayed_ack: DelayedAck::default(),
            unacked: None,
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
        self.furthest = None;
        self.acknowledge = None;
        self.delayed_ack = DelayedAck::default();
        self.unacked = None;
        self.closing = false;
        self.established = false;
        self.last_response = None;
        self.ring.clear();
    }

    /// Sends nothing any more but an ACK, due or delayed: the requests that it acknowledges were
    /// carried out, and the consumer has their completions. It is not sent before a response that
    /// is due and dropped, as it would acknowledge that one as well (IBTA 9.7.5.1.1).
    pub(super) fn quiesce(&mut self) {
        let acks = |ack: Acknowledge| matches!(ack.syndrome, Syndrome::Ack { .. });
        self.closing = self.acknowledge.is_some_and(acks) && self.ring.is_idle();
        self.flush_delayed_ack();
        if !self.closing {
            self.acknowledge = None;
        }
        self.ring.quiesce();
    }

    /// Makes a delayed ACK due at once.
    #[inline]
    pub(super) fn flush_delayed_ack(&mut self) {
        if let Some(ack) = &mut self.acknowledge {
            ack.deadline = None;
        }
    }

    /// Makes an ACK of all messages that were received due at once, as this side's requester is
    /// about to send: the peer's requests complete before it handles what this side's program sends
    /// in reply. A NAK acknowledges them as well (IBTA 9.7.5.2). Returns whether it goes first:
    /// responses do, which an ACK must not overtake (IBTA 9.7.5.1).
    #[inline]
    pub(super) fn acknowledge_first(&mut self) -> bool {
        if self.unacked.is_none() || !self.ring.is_idle() {
            return false;
        }
        let is_nak = |ack: Acknowledge| !matches!(ack.syndrome, Syndrome::Ack { .. });
        if !self.acknowledge.is_some_and(is_nak) {
            self.acknowledge = Some(Acknowledge {
                syndrome: Syndrome::ACK,
                psn: self.epsn.prev(),
                deadline: None,
            });
        }
        true
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
            return (self.out_of_sequence(pkt.bth.psn), Events::NONE);
        }
        match self.execute(now, attr, pkt, segments, payload_len, ops) {
            Ok(()) => (Verdict::Accepted, Events::NONE),
            Err(refusal) => self.refuse(attr, refusal),
        }
    }

    /// Sends a NAK for the expected packet, which is refused.
    #[cold]
    fn refuse(&mut self, attr: &Attr, refusal: Refusal) -> (Verdict, Events) {
        let Some((code, events)) = fatal_nak(refusal) else {
            self.nak_sent = true;
            self.acknowledge = Some(Acknowledge {
                syndrome: Syndrome::RnrNak {
                    timer: RnrTimer::new(attr.min_rnr_timer),
                },
                psn: self.epsn,
                deadline: None,
            });
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
    pub(super) fn close(&mut self, code: NakCode, psn: Psn) {
        self.closing = true;
        self.acknowledge = Some(Acknowledge {
            syndrome: Syndrome::Nak { code },
            psn,
            deadline: None,
        });
    }

    /// A packet before `psn` is missing: reports it once (IBTA 9.7.5.2, PSN sequence error).
    #[cold]
    fn out_of_sequence(&mut self, psn: Psn) -> Verdict {
        if !self.nak_sent {
            self.report_gap();
        }
        if self.furthest.is_none_or(|furthest| psn.is_after(furthest)) {
            self.furthest = Some(psn);
        }
        Verdict::Dropped(DropReason::OutOfSequence)
    }

    /// Sends a NAK that asks for the expected packet.
    #[cold]
    fn report_gap(&mut self) {
        self.nak_sent = true;
        self.acknowledge = Some(Acknowledge {
            syndrome: Syndrome::Nak {
                code: NakCode::PsnSequence,
            },
            psn: self.epsn,
            deadline: None,
        });
    }

    /// Whether a NAK that asks for the expected packet is due and was not sent yet.
    #[inline]
    fn is_nak_due(&self) -> bool {
        self.nak_sent && self.acknowledge.is_some_and(|ack| ack.psn == self.epsn)
    }

    /// The packet that a NAK asked for was carried out, and another one is expected now. If the NAK
    /// was still `due`, the peer does not learn of the gap by it: a NAK for the next packet takes
    /// its place if that was dropped, or one after it.
    #[cold]
    fn overtake_nak(&mut self, due: bool) {
        let dropped = |psn: &Psn| due && psn.distance(self.epsn) >= 0;
        self.furthest = self.furthest.filter(dropped);
        self.nak_sent = false;
        if self.furthest.is_some() {
            self.report_gap();
        }
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
        let end = self.epsn.add(segments.into());
        if pkt.bth.ack_req || was_nak {
            let may_wait = ends && !was_nak;
            self.acknowledge = Some(Acknowledge {
                syndrome: Syndrome::ACK,
                psn: end.prev(),
                deadline: may_wait.then(|| self.delayed_ack.on_message(now)).flatten(),
            });
        }
        self.epsn = end;
        if self.nak_sent {
            self.overtake_nak(was_nak);
        }
        if ends {
            self.unacked = Some(end);
            self.count_message();
        }
        Ok(())
    }

    fn count_message(&mut self) {
        self.msn = self.msn.wrapping_add(1) & Psn::MASK;
    }
}
