// SPDX-License-Identifier: GPL-2.0

//! The responder of a reliable connection: carries out request packets in order, and responds
//! (IBTA 9.7.4, 9.7.5).
//!
//! Each packet passes the checks of IBTA 9.7.4.1 in this order: sequence number, opcode sequence,
//! support for the operation, length, receive request or key. A packet that fails a check gets a
//! NAK, or no response at all, and is not carried out. READs and atomics are in `rd_atomic`,
//! duplicates in `duplicate`; responses and acknowledgements are made in `response`.

mod rd_atomic;

use super::delayed_ack::DelayedAck;
use super::resource::{Resource, ResourceRing};
use super::wire::{Kind, NakCode, PacketRepr, Psn, RethRepr, RnrTimer, Syndrome};
use super::{
    AccessError, Attr, DropReason, Events, Instant, Pmtu, RecvCompletion, RecvStart, ResponderOps,
    Status, Verdict, MAX_MESSAGE,
};

/// The message in progress: more of its packets are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// None: the next packet must begin one.
    None,
    /// A SEND, with the number of bytes that have arrived.
    Send { received: u32 },
    /// A WRITE of `total` bytes, with the number of bytes that have arrived.
    Write { received: u32, total: u32 },
}

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
    pub(super) message: Message,
    /// A receive work request is in use.
    pub(super) recv_in_use: bool,
    /// A NAK asked the peer to retransmit from `epsn` on. No other NAK is sent until it does.
    pub(super) nak_sent: bool,
    pub(super) acknowledge: Option<Acknowledge>,
    pub(super) delayed_ack: DelayedAck,
    /// The connection has ended, except for the packets that are still due: responses, a delayed
    /// ACK, or the NAK that reports the end.
    pub(super) closing: bool,
    /// The first packet has arrived.
    pub(super) established: bool,
    /// The last PSN of the newest READ or atomic, if there was any.
    pub(super) last_response: Option<Psn>,
    pub(super) ring: ResourceRing<R>,
}

/// The reason that a request packet is not carried out.
enum Refusal {
    /// No receive request: RNR NAK.
    NotReady,
    /// This NAK, which ends the connection. The event is due unless a completion informs the
    /// consumer.
    Nak(NakCode, Events),
}

const INVALID: Refusal = Refusal::Nak(NakCode::InvalidRequest, Events::REQ_ERR);

impl From<AccessError> for Refusal {
    fn from(denied: AccessError) -> Self {
        match denied {
            AccessError::Access => Refusal::Nak(NakCode::RemoteAccess, Events::ACCESS_ERR),
            AccessError::Op => Refusal::Nak(NakCode::RemoteOperational, Events::FATAL),
            AccessError::Misaligned => INVALID,
        }
    }
}

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// A responder that has received nothing.
    pub(super) fn new(resources: R) -> Self {
        Responder {
            epsn: Psn::ZERO,
            msn: 0,
            message: Message::None,
            recv_in_use: false,
            nak_sent: false,
            acknowledge: None,
            delayed_ack: DelayedAck::default(),
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
        self.message = Message::None;
        self.nak_sent = false;
        self.acknowledge = None;
        self.delayed_ack = DelayedAck::default();
        self.closing = false;
        self.established = false;
        self.last_response = None;
        self.ring.clear();
    }

    /// Sends nothing any more but a delayed ACK: the requests that it acknowledges were carried
    /// out, and the consumer has their completions.
    pub(super) fn quiesce(&mut self) {
        self.closing = self.acknowledge.is_some_and(|ack| ack.deadline.is_some());
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

    /// The expected PSN, as a query of the QP shows it.
    pub fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Whether a receive work request is in use whose message will not be finished. The owner
    /// flushes it before the others. Returns `true` once for each.
    pub fn abandon_recv(&mut self) -> bool {
        self.message = Message::None;
        core::mem::take(&mut self.recv_in_use)
    }

    /// How many middle packets may be taken at a time; `psn` is that of the first.
    #[inline]
    pub(super) fn max_segments(&self, psn: Psn, pmtu: Pmtu) -> u32 {
        match self.message {
            _ if psn != self.epsn => 1,
            Message::None => 1,
            Message::Send { .. } => u32::MAX,
            // A further packet would exceed `total`. It is checked, and refused, on its own.
            Message::Write { received, total } => {
                total.saturating_sub(received).saturating_sub(1) / pmtu.bytes()
            }
        }
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
            return (self.out_of_sequence(), Events::NONE);
        }
        match self.execute(now, attr, pkt, segments, payload_len, ops) {
            Ok(()) => (Verdict::Accepted, Events::NONE),
            Err(Refusal::NotReady) => {
                self.nak_sent = true;
                self.acknowledge = Some(Acknowledge {
                    syndrome: Syndrome::RnrNak {
                        timer: RnrTimer::new(attr.min_rnr_timer),
                    },
                    psn: self.epsn,
                    deadline: None,
                });
                (Verdict::Dropped(DropReason::NotReady), Events::NONE)
            }
            Err(Refusal::Nak(code, event)) => {
                self.close(code, self.epsn);
                (Verdict::Dropped(DropReason::Refused), event)
            }
        }
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

    /// A packet is missing: reports it once (IBTA 9.7.5.2, PSN sequence error).
    #[cold]
    fn out_of_sequence(&mut self) -> Verdict {
        if !self.nak_sent {
            self.nak_sent = true;
            self.acknowledge = Some(Acknowledge {
                syndrome: Syndrome::Nak {
                    code: NakCode::PsnSequence,
                },
                psn: self.epsn,
                deadline: None,
            });
        }
        Verdict::Dropped(DropReason::OutOfSequence)
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
            return Err(INVALID);
        }
        let payload_len = payload_len.saturating_mul(segments.into());
        match info.kind {
            Kind::Send => self.execute_send(pkt, payload_len, ops)?,
            Kind::Write => self.execute_write(attr, pkt, payload_len, ops)?,
            Kind::ReadRequest => return self.execute_read(attr, pkt, ops),
            _ => return self.execute_atomic(attr, pkt, ops),
        }
        self.nak_sent = false;
        // A NAK that asked for this packet and was not sent yet becomes an ACK, since it may have
        // replaced an ACK that was due.
        let was_nak = self.acknowledge.is_some_and(|ack| ack.psn == self.epsn);
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
        if ends {
            self.count_message();
        }
        Ok(())
    }

    fn count_message(&mut self) {
        self.msn = self.msn.wrapping_add(1) & Psn::MASK;
    }

    /// Takes the next receive request.
    #[inline]
    fn start_recv<T: ResponderOps>(&mut self, write_imm: bool, ops: &mut T) -> Result<(), Refusal> {
        match ops.recv_start() {
            RecvStart::Taken => {
                self.recv_in_use = true;
                Ok(())
            }
            RecvStart::Empty => Err(Refusal::NotReady),
            RecvStart::LocalError(status) => {
                self.recv_in_use = true;
                self.fail_recv(write_imm, status, ops);
                Err(Refusal::Nak(NakCode::RemoteOperational, Events::NONE))
            }
        }
    }

    /// Completes the receive request in use with an error.
    #[cold]
    fn fail_recv<T: ResponderOps>(&mut self, write_imm: bool, status: Status, ops: &mut T) {
        self.recv_in_use = false;
        self.message = Message::None;
        ops.recv_done(RecvCompletion {
            status,
            write_imm,
            byte_len: 0,
            imm: None,
            inv_rkey: None,
            solicited: false,
        });
    }

    /// Executes a packet of a SEND.
    #[inline]
    fn execute_send<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let position = pkt.bth.opcode.position();
        // IBTA 9.7.4.1.3: without a message in progress a first or only packet, otherwise a middle
        // or last one of the same message.
        let received = match self.message {
            Message::None if position.is_start() => {
                self.start_recv(false, ops)?;
                0
            }
            Message::Send { received } if !position.is_start() => received,
            _ => return Err(INVALID),
        };
        let after = received.saturating_add(payload_len);
        let placed = if after > MAX_MESSAGE {
            Err(Status::LocLen)
        } else if payload_len == 0 {
            Ok(())
        } else {
            ops.recv_place(received)
        };
        if let Err(status) = placed {
            self.fail_recv(false, status, ops);
            // IBTA 9.9.3: a message too long for its buffer is an invalid request.
            let code = match status {
                Status::LocLen => NakCode::InvalidRequest,
                _ => NakCode::RemoteOperational,
            };
            return Err(Refusal::Nak(code, Events::NONE));
        }
        if !position.is_end() {
            self.message = Message::Send { received: after };
            return Ok(());
        }
        let inv_rkey = pkt.ext.ieth().map(|ieth| ieth.rkey);
        if let Some(rkey) = inv_rkey {
            if let Err(denied) = ops.invalidate(rkey) {
                self.fail_recv(false, Status::RemInvReq, ops);
                let Refusal::Nak(code, _) = Refusal::from(denied) else {
                    return Err(INVALID);
                };
                return Err(Refusal::Nak(code, Events::NONE));
            }
        }
        self.finish_recv(pkt, false, after, ops);
        Ok(())
    }

    /// Completes the receive request in use with success.
    #[inline]
    fn finish_recv<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        write_imm: bool,
        byte_len: u32,
        ops: &mut T,
    ) {
        self.message = Message::None;
        self.recv_in_use = false;
        ops.recv_done(RecvCompletion {
            status: Status::Success,
            write_imm,
            byte_len,
            imm: pkt.ext.imm().map(|imm| imm.data),
            inv_rkey: pkt.ext.ieth().map(|ieth| ieth.rkey),
            solicited: pkt.bth.solicited,
        });
    }

    /// Executes a packet of a WRITE.
    #[inline]
    fn execute_write<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), Refusal> {
        let position = pkt.bth.opcode.position();
        let (received, total) = match (self.message, pkt.ext.reth()) {
            (Message::None, Some(reth)) => (0, begin_write(attr, &reth)?),
            (Message::Write { received, total }, None) => (received, total),
            _ => return Err(INVALID),
        };
        // IBTA 9.7.4.1.6: the packets must carry exactly as many bytes as the RETH says.
        let after = received.saturating_add(payload_len);
        let fits = if position.is_end() {
            after == total
        } else {
            after < total
        };
        if !fits {
            return Err(INVALID);
        }
        if let (Some(reth), true) = (pkt.ext.reth(), total > 0) {
            ops.write_start(reth.va, reth.rkey, total)?;
        }
        let imm = pkt.ext.imm().is_some();
        if imm {
            self.start_recv(true, ops)?;
        }
        if payload_len > 0 {
            if let Err(denied) = ops.write_place(received) {
                if imm {
                    self.fail_recv(true, Status::LocAccess, ops);
                }
                return Err(denied.into());
            }
        }
        if imm {
            self.finish_recv(pkt, true, total, ops);
        }
        self.message = if position.is_end() {
            Message::None
        } else {
            Message::Write {
                received: after,
                total,
            }
        };
        Ok(())
    }
}

/// Checks the RETH of a WRITE; returns its length.
#[inline]
fn begin_write(attr: &Attr, reth: &RethRepr) -> Result<u32, Refusal> {
    if !attr.access.write || reth.dma_len > MAX_MESSAGE {
        return Err(INVALID);
    }
    Ok(reth.dma_len)
}
