// SPDX-License-Identifier: GPL-2.0

//! The packets of SENDs and WRITEs: headers and payload (IBTA 9.2, 9.4).

use super::wire::{
    pad_for, BthRepr, Ext, IethRepr, ImmDtRepr, Kind, Opcode, PacketRepr, Position, Psn, RethRepr,
    Service, Tail,
};
use super::{Attr, Origin, Payload, Request, SendOp, Transmit};

/// The headers of a request packet.
#[inline]
pub(in super::super) fn header(opcode: Opcode, psn: Psn, ext: Ext, attr: &Attr) -> PacketRepr {
    PacketRepr {
        bth: BthRepr::new(opcode, attr.pkey, attr.dest_qpn, psn),
        ext,
    }
}

/// The packet of a SEND or WRITE of `service` that has index `index` in its message, or `segments`
/// packets from there on.
#[inline]
pub(in super::super) fn message_packet(
    service: Service,
    request: &Request,
    n: u32,
    index: u32,
    segments: u16,
    ask: bool,
    attr: &Attr,
) -> Transmit {
    let offset = attr.pmtu.offset(index);
    let len = request
        .len
        .saturating_sub(offset)
        .min(attr.pmtu.offset(segments.into()));
    let starts = index == 0;
    let ends = index.wrapping_add(1) >= request.psns;
    let (kind, tail) = match request.op {
        SendOp::Send => (Kind::Send, Tail::Plain),
        SendOp::SendImm(_) => (Kind::Send, Tail::Imm),
        SendOp::SendInv(_) => (Kind::Send, Tail::Inv),
        SendOp::WriteImm(_) => (Kind::Write, Tail::Imm),
        _ => (Kind::Write, Tail::Plain),
    };
    let opcode = Opcode::compose(service, kind, Position::of(starts, ends), tail)
        // The requester has checked that the service has the operation, so this value is not used.
        .unwrap_or(Opcode::RcSendOnly);
    let psn = request.first_psn.add(index);
    let mut header = header(opcode, psn, message_ext(request, starts, ends), attr);
    header.bth.pad = pad_for(len as usize);
    header.bth.ack_req = ask;
    // IBTA 9.2.3: SE is set in the last packet of a SEND or a WRITE with immediate.
    header.bth.solicited = ends && request.solicited && !matches!(request.op, SendOp::Write);
    Transmit {
        header,
        payload: if len == 0 {
            Payload::None
        } else {
            Payload::Request { n, offset, len }
        },
        origin: Origin::Request { n },
        segments,
    }
}

/// The headers after the BTH of a SEND or WRITE packet (IBTA 9.2, Table 38).
#[inline]
fn message_ext(request: &Request, starts: bool, ends: bool) -> Ext {
    let reth = RethRepr {
        va: request.va,
        rkey: request.rkey,
        dma_len: request.len,
    };
    match request.op {
        SendOp::SendImm(data) if ends => Ext::Imm(ImmDtRepr { data }),
        SendOp::SendInv(rkey) if ends => Ext::Inv(IethRepr { rkey }),
        SendOp::Write if starts => Ext::Reth(reth),
        SendOp::WriteImm(data) if starts && ends => Ext::RethImm(reth, ImmDtRepr { data }),
        SendOp::WriteImm(_) if starts => Ext::Reth(reth),
        SendOp::WriteImm(data) if ends => Ext::Imm(ImmDtRepr { data }),
        _ => Ext::None,
    }
}
