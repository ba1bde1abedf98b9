// SPDX-License-Identifier: GPL-2.0

//! The foreign peer's responder: carries out request packets in order, and answers in the order in
//! which things became due (IBTA 9.7.4, 9.7.5, 9.9.3). READs and atomics are in `resources`.

use super::attr::{packet, unwrap_psn, Attr, Style};
use super::response::{Resource, Response};
use crate::api::*;
use oxe_proto::transport::Origin;
use oxe_proto::wire::{
    AethRepr, AtomicAckEthRepr, Ext, Kind, NakCode, Opcode, PacketRepr, Position, RnrTimer,
    Service, Syndrome, Tail,
};
use std::collections::VecDeque;

/// The message in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    None,
    Send { received: u32 },
    Write { received: u32, total: u32 },
}

/// Why a request is not carried out.
pub(super) enum Refusal {
    NotReady,
    NotPresent,
    Nak(NakCode),
}

pub(super) const INVALID: Refusal = Refusal::Nak(NakCode::InvalidRequest);

impl From<AccessError> for Refusal {
    fn from(denied: AccessError) -> Self {
        Refusal::Nak(match denied {
            AccessError::Access => NakCode::RemoteAccess,
            AccessError::Op => NakCode::RemoteOperational,
            AccessError::Misaligned => NakCode::InvalidRequest,
            AccessError::NotPresent => return Refusal::NotPresent,
        })
    }
}

pub struct Responder {
    pub(super) style: Style,
    start_psn: u32,
    /// The packet that is expected, counted from the first.
    pub(super) expected: u64,
    pub(super) msn: u32,
    pub(super) message: Message,
    recv_in_use: bool,
    /// A NAK was sent, and the packet that it asked for has not come.
    nak_sent: bool,
    refused: bool,
    pub(super) limit: usize,
    pub(super) next_res: u8,
    pub(super) resources: VecDeque<Resource>,
    pub(super) answers: VecDeque<Response>,
}

impl Responder {
    pub fn new(start_psn: u32, style: Style, limit: usize) -> Responder {
        Responder {
            style,
            start_psn,
            expected: 0,
            msn: 0,
            message: Message::None,
            recv_in_use: false,
            nak_sent: false,
            refused: false,
            limit,
            next_res: 0,
            resources: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    fn psn(&self, at: u64) -> u32 {
        self.start_psn.wrapping_add(at as u32) & 0xff_ffff
    }

    pub fn expected_psn(&self) -> u32 {
        self.psn(self.expected)
    }

    pub fn has_refused(&self) -> bool {
        self.refused
    }

    pub fn fall_silent(&mut self) {
        self.answers.clear();
    }

    pub fn abandon_recv(&mut self) -> bool {
        self.message = Message::None;
        std::mem::take(&mut self.recv_in_use)
    }

    /// The next packet of the responder.
    pub fn poll(&mut self, attr: &Attr) -> Option<Transmit> {
        let answer = self.answers.front_mut()?;
        let aeth = |msn| AethRepr {
            syndrome: Syndrome::ACK,
            msn,
        };
        let psn = |at: u64| self.start_psn.wrapping_add(at as u32) & 0xff_ffff;
        let transmit = match answer {
            Response::Ack { at, syndrome } => {
                let (syndrome, msn) = (*syndrome, self.msn);
                let ext = Ext::Aeth(AethRepr { syndrome, msn });
                let bth = attr.bth(Opcode::RcAck, psn(*at), 0);
                packet(bth, ext, Payload::None, Origin::Acknowledge)
            }
            Response::Atomic { resource, .. } => {
                let aeth = aeth(resource.msn);
                let (opcode, ext) = match resource.original {
                    Some(original) => {
                        let ack = AtomicAckEthRepr { original };
                        (Opcode::RcAtomicAck, Ext::AtomicAck(aeth, ack))
                    }
                    None => (Opcode::RcReadResponseOnly, Ext::Aeth(aeth)),
                };
                let bth = attr.bth(opcode, psn(resource.first), 0);
                packet(bth, ext, Payload::None, Origin::Response)
            }
            Response::Read {
                resource,
                va,
                from,
                next,
                len,
                ..
            } => {
                let offset = (*next - *from) as u32 * attr.pmtu;
                let (res, rkey) = (resource.res, resource.read.map_or(0, |(_, rkey, _)| rkey));
                let end = *from + attr.packets(*len);
                let position = Position::of(next == from, *next + 1 == end);
                let part = (*len - offset).min(attr.pmtu);
                let payload = Payload::Read {
                    res,
                    va: *va,
                    rkey,
                    offset,
                    len: part,
                };
                let payload = if part == 0 { Payload::None } else { payload };
                let kind = Kind::ReadResponse;
                let opcode = Opcode::compose(Service::Rc, kind, position, Tail::Plain);
                let bth = attr.bth(opcode.expect("there is one for each"), psn(*next), part);
                let ext = match position {
                    Position::Middle => Ext::None,
                    _ => Ext::Aeth(aeth(resource.msn)),
                };
                *next += 1;
                if *next < end {
                    return Some(packet(bth, ext, payload, Origin::Response));
                }
                packet(bth, ext, payload, Origin::Response)
            }
        };
        self.answers.pop_front();
        Some(transmit)
    }

    /// Queues an ACK of all that was carried out. It replaces an ACK at the end of the queue.
    pub(super) fn acknowledge(&mut self) {
        let syndrome = Syndrome::Ack {
            credit: self.style.credit,
        };
        let at = self.expected.saturating_sub(1);
        if let Some(Response::Ack { syndrome: old, .. }) = self.answers.back() {
            if matches!(old, Syndrome::Ack { .. }) {
                self.answers.pop_back();
            }
        }
        self.answers.push_back(Response::Ack { at, syndrome });
    }

    fn nak(&mut self, at: u64, syndrome: Syndrome) {
        self.nak_sent = true;
        self.answers.push_back(Response::Ack { at, syndrome });
    }

    /// Takes a request packet.
    pub fn handle<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        target: &mut T,
    ) -> Verdict {
        let expected = self.expected_psn();
        let Some(at) = unwrap_psn(pkt.bth.psn.get(), expected, self.expected) else {
            return Verdict::Dropped(DropReason::Duplicate);
        };
        if at < self.expected {
            return self.duplicate(at, pkt, target);
        }
        if at > self.expected {
            // IBTA 9.7.5.2: one NAK until the packet comes.
            if !self.nak_sent {
                let code = NakCode::PsnSequence;
                self.nak(self.expected, Syndrome::Nak { code });
            }
            return Verdict::Dropped(DropReason::OutOfSequence);
        }
        match self.execute(attr, pkt, payload_len, target) {
            Ok(()) => {
                self.nak_sent = false;
                // Queued NAKs ask for this packet: they must not be sent any more.
                self.answers.retain(|answer| match answer {
                    Response::Ack { syndrome, .. } => matches!(syndrome, Syndrome::Ack { .. }),
                    _ => true,
                });
                Verdict::Accepted
            }
            Err(refusal @ (Refusal::NotReady | Refusal::NotPresent)) => {
                let timer = RnrTimer::new(attr.min_rnr_timer);
                self.nak(at, Syndrome::RnrNak { timer });
                Verdict::Dropped(match refusal {
                    Refusal::NotReady => DropReason::NotReady,
                    _ => DropReason::NotPresent,
                })
            }
            Err(Refusal::Nak(code)) => {
                self.nak(at, Syndrome::Nak { code });
                self.refused = true;
                Verdict::Dropped(DropReason::Refused)
            }
        }
    }

    fn execute<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        payload_len: u32,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let opcode = pkt.bth.opcode;
        let position = opcode.position();
        match opcode.kind() {
            Kind::ReadRequest => return self.read(attr, pkt, target),
            kind if kind.is_atomic() => return self.atomic(attr, pkt, target),
            Kind::AtomicWrite | Kind::Flush => {
                return self.placement(attr, pkt, payload_len, target);
            }
            kind => {
                let fits = match position {
                    Position::First | Position::Middle => payload_len == attr.pmtu,
                    Position::Last => (1..=attr.pmtu).contains(&payload_len),
                    Position::Only => payload_len <= attr.pmtu,
                };
                if !fits {
                    return Err(INVALID);
                }
                if kind == Kind::Send {
                    self.send(pkt, payload_len, target)?;
                } else {
                    self.write(attr, pkt, payload_len, target)?;
                }
            }
        }
        self.expected += 1;
        self.msn = (self.msn + u32::from(position.is_end())) & 0xff_ffff;
        if pkt.bth.ack_req || self.style.eager_acks {
            self.acknowledge();
        }
        Ok(())
    }

    fn start_recv<T: ResponderOps>(
        &mut self,
        write_imm: bool,
        target: &mut T,
    ) -> Result<(), Refusal> {
        match target.recv_start() {
            RecvStart::Empty => Err(Refusal::NotReady),
            RecvStart::Taken => {
                self.recv_in_use = true;
                Ok(())
            }
            RecvStart::LocalError(status) => {
                self.finish_recv(None, status, write_imm, 0, target);
                Err(Refusal::Nak(NakCode::RemoteOperational))
            }
        }
    }

    fn finish_recv<T: ResponderOps>(
        &mut self,
        pkt: Option<&PacketRepr>,
        status: Status,
        write_imm: bool,
        byte_len: u32,
        target: &mut T,
    ) {
        self.recv_in_use = false;
        self.message = Message::None;
        let pkt = pkt.filter(|_| status == Status::Success);
        target.recv_done(RecvCompletion {
            status,
            write_imm,
            byte_len,
            imm: pkt.and_then(|p| p.ext.imm()).map(|imm| imm.data),
            inv_rkey: pkt.and_then(|p| p.ext.ieth()).map(|ieth| ieth.rkey),
            solicited: pkt.is_some_and(|p| p.bth.solicited),
        });
    }

    fn send<T: ResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        len: u32,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let position = pkt.bth.opcode.position();
        let received = match self.message {
            Message::None if position.is_start() => {
                self.start_recv(false, target)?;
                0
            }
            Message::Send { received } if !position.is_start() => received,
            _ => return Err(INVALID),
        };
        if len > 0 {
            if let Err(why) = target.recv_place(received) {
                let PlaceError::Failed(status) = why else {
                    return Err(Refusal::NotPresent);
                };
                self.finish_recv(None, status, false, 0, target);
                let too_long = status == Status::LocLen;
                return Err(if too_long {
                    INVALID
                } else {
                    Refusal::Nak(NakCode::RemoteOperational)
                });
            }
        }
        let received = received + len;
        if !position.is_end() {
            self.message = Message::Send { received };
            return Ok(());
        }
        if let Some(ieth) = pkt.ext.ieth() {
            if let Err(denied) = target.invalidate(ieth.rkey) {
                self.finish_recv(None, Status::RemInvReq, false, 0, target);
                return Err(denied.into());
            }
        }
        self.finish_recv(Some(pkt), Status::Success, false, received, target);
        Ok(())
    }

    fn write<T: ResponderOps>(
        &mut self,
        attr: &Attr,
        pkt: &PacketRepr,
        len: u32,
        target: &mut T,
    ) -> Result<(), Refusal> {
        let (received, total) = match (self.message, pkt.ext.reth()) {
            (Message::None, Some(reth)) if attr.access.write => (0, reth.dma_len),
            (Message::Write { received, total }, None) => (received, total),
            _ => return Err(INVALID),
        };
        let ends = pkt.bth.opcode.position().is_end();
        let after = received + len;
        if after > total || ends != (after == total) {
            return Err(INVALID);
        }
        if let Some(reth) = pkt.ext.reth().filter(|reth| reth.dma_len > 0) {
            target.write_start(reth.va, reth.rkey, total)?;
        }
        let imm = pkt.ext.imm().is_some();
        if imm {
            self.start_recv(true, target)?;
        }
        if len > 0 {
            if let Err(denied) = target.write_place(received) {
                if imm && denied != AccessError::NotPresent {
                    self.finish_recv(None, Status::LocAccess, true, 0, target);
                }
                return Err(denied.into());
            }
        }
        self.message = match ends {
            true => Message::None,
            false => Message::Write {
                received: after,
                total,
            },
        };
        if imm {
            self.finish_recv(Some(pkt), Status::Success, true, total, target);
        }
        Ok(())
    }

    /// The response packet with this PSN cannot be made: the connection is over.
    pub fn cannot_read(&mut self, psn: u32) {
        let at = unwrap_psn(psn, self.expected_psn(), self.expected).unwrap_or(0);
        self.answers.clear();
        let code = NakCode::RemoteAccess;
        self.nak(at, Syndrome::Nak { code });
        self.refused = true;
    }
}
