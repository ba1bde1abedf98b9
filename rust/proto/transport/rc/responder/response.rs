// SPDX-License-Identifier: GPL-2.0

//! The packets that the responder sends: the responses to READs, atomics, ATOMIC WRITEs and FLUSHes
//! in the order of their PSNs, and after them one ACK or NAK (IBTA 9.7.5.1). An ACK therefore never
//! overtakes a response before it, and one ACK acknowledges all packets that have arrived
//! meanwhile.

use super::common::{Attr, Instant, Origin, Payload, Transmit};
use super::resource::{Resource, ResourceKind, Response};
use super::wire::{
    pad_for, AethRepr, AtomicAckEthRepr, BthRepr, Ext, Kind, NakCode, Opcode, PacketRepr, Position,
    Psn, Service, Syndrome, Tail,
};
use super::{Acknowledge, Responder};

impl<R: AsRef<[Resource]> + AsMut<[Resource]>> Responder<R> {
    /// The next packet of the responder, if there is one, or up to `max_segments` segments.
    #[inline]
    pub(in super::super) fn poll(
        &mut self,
        now: Instant,
        attr: &Attr,
        max_segments: u16,
    ) -> Option<Transmit> {
        if let Some(response) = self.ring.next_response(attr.pmtu, max_segments) {
            // IBTA 9.7.5.1.1: it acknowledges all requests before its own.
            self.note_acked(response.psn);
            return Some(response_packet(&response, attr));
        }
        self.handle_timeout(now);
        let ack = self.acknowledge.take_if(|ack| ack.deadline.is_none())?;
        self.note_acked(acked_by(ack.syndrome, ack.psn));
        let aeth = AethRepr {
            syndrome: ack.syndrome,
            msn: self.msn,
        };
        Some(Transmit {
            header: PacketRepr {
                bth: BthRepr::new(Opcode::RcAck, attr.pkey, attr.dest_qpn, ack.psn),
                ext: Ext::Aeth(aeth),
            },
            payload: Payload::None,
            origin: Origin::Acknowledge,
            segments: 1,
        })
    }

    /// A delayed ACK whose deadline has passed is due now, though responses may go first.
    #[inline]
    pub(in super::super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(ack) = &mut self.acknowledge {
            if ack.deadline.take_if(|end| now >= *end).is_some() {
                self.delayed_ack.on_expiry();
            }
        }
    }

    /// All packets before `end` are acknowledged.
    #[inline]
    fn note_acked(&mut self, end: Psn) {
        self.unacked.take_if(|message| !message.is_after(end));
    }

    /// Takes back the ACK or NAK with these headers, which was not sent. A newer one takes
    /// precedence.
    #[cold]
    pub(in super::super) fn undo_ack(&mut self, header: &PacketRepr) {
        let Some(aeth) = header.ext.aeth() else {
            return;
        };
        self.unacked = self
            .unacked
            .or(Some(acked_by(aeth.syndrome, header.bth.psn)));
        let fatal = matches!(aeth.syndrome, Syndrome::Nak { code } if code != NakCode::PsnSequence);
        if fatal || self.acknowledge.is_none() {
            self.acknowledge = Some(Acknowledge {
                syndrome: aeth.syndrome,
                psn: header.bth.psn,
                deadline: None,
            });
        }
    }

    /// The payload of the response packet with `psn` could not be read. Returns whether this ends
    /// the connection; a NAK is then due. It does not if the response was repeated for a duplicate,
    /// as the peer may already have it.
    #[cold]
    pub(in super::super) fn local_error(&mut self, psn: Psn) -> bool {
        if !self.ring.abandon(psn) {
            return false;
        }
        self.ring.quiesce();
        self.close(NakCode::RemoteAccess, psn);
        true
    }
}

/// One past the last packet that an ACK or NAK acknowledges (IBTA 9.7.5.1.2 and 9.7.5.2).
#[inline]
fn acked_by(syndrome: Syndrome, psn: Psn) -> Psn {
    match syndrome {
        Syndrome::Ack { .. } => psn.next(),
        _ => psn,
    }
}

/// A packet, or segments, of a response (IBTA 9.7.5.1, opcodes in Table 38).
#[inline]
fn response_packet(response: &Response, attr: &Attr) -> Transmit {
    let aeth = AethRepr {
        syndrome: Syndrome::ACK,
        msn: response.msn,
    };
    let (opcode, ext, payload) = match response.kind {
        ResourceKind::Atomic { original } => (
            Opcode::RcAtomicAck,
            Ext::AtomicAck(aeth, AtomicAckEthRepr { original }),
            Payload::None,
        ),
        // IBTA annex A19.4: the response is that to a READ of no bytes.
        ResourceKind::AtomicWrite | ResourceKind::Flush => {
            (Opcode::RcReadResponseOnly, Ext::Aeth(aeth), Payload::None)
        }
        ResourceKind::Read { va, rkey, .. } => {
            let position = Position::of(response.starts, response.ends);
            let ext = match position {
                Position::Middle => Ext::None,
                _ => Ext::Aeth(aeth),
            };
            (read_opcode(position), ext, read_payload(response, va, rkey))
        }
    };
    let mut header = PacketRepr {
        bth: BthRepr::new(opcode, attr.pkey, attr.dest_qpn, response.psn),
        ext,
    };
    // Segments need no pad, as any path MTU is a multiple of four.
    header.bth.pad = pad_for(payload.len() as usize);
    Transmit {
        header,
        payload,
        origin: Origin::Response,
        segments: response.segments,
    }
}

#[inline]
fn read_opcode(position: Position) -> Opcode {
    Opcode::compose(Service::Rc, Kind::ReadResponse, position, Tail::Plain)
        // Each position has an opcode, so this value is not used.
        .unwrap_or(Opcode::RcReadResponseOnly)
}

#[inline]
fn read_payload(response: &Response, va: u64, rkey: u32) -> Payload {
    if response.len == 0 {
        return Payload::None;
    }
    Payload::Read {
        res: response.res,
        va: va.wrapping_add(u64::from(response.base)),
        rkey,
        offset: response.offset,
        len: response.len,
    }
}
