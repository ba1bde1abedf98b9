// SPDX-License-Identifier: GPL-2.0

//! The packets that the responder sends: the responses to READs, atomics, ATOMIC WRITEs and FLUSHes
//! in the order of their PSNs, and after them one ACK or NAK (IBTA 9.7.5.1). An ACK therefore never
//! overtakes a response before it, and one ACK acknowledges all packets that have arrived
//! meanwhile.

use super::acknowledge::Acknowledge;
use super::common::{Attr, Instant, Origin, Payload, Transmit};
use super::resource::{Resource, ResourceKind, Response};
use super::wire::{
    pad_for, AethRepr, AtomicAckEthRepr, BthRepr, Ext, Kind, NakCode, Opcode, PacketRepr, Position,
    Psn, Service, Syndrome, Tail,
};
use super::Responder;

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
            self.ack.note_acked(response.psn);
            return Some(response_packet(&response, attr));
        }
        let ack = self.ack.take(now)?;
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

    /// Takes back the ACK or NAK with these headers, which was not sent. A newer one takes
    /// precedence.
    #[cold]
    pub(in super::super) fn undo_ack(&mut self, header: &PacketRepr) {
        if let Some(aeth) = header.ext.aeth() {
            self.ack
                .undo(Acknowledge::new(aeth.syndrome, header.bth.psn));
        }
    }

    /// Takes back the response packet with `psn`, which was not sent: it is the next one again.
    #[cold]
    pub(in super::super) fn undo_response(&mut self, psn: Psn) {
        self.ring.undo(psn);
    }

    /// The responses that are due count as lost on the wire.
    #[cold]
    pub(in super::super) fn lose_responses(&mut self) {
        self.ring.lose();
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
