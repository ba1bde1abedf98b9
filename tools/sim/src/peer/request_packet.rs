// SPDX-License-Identifier: GPL-2.0

//! The request packets of the foreign peer (IBTA 9.2, 9.4, IBTA annex A19.4).

use super::attr::{packet, Attr};
use crate::api::*;
use oxe_proto::transport::Origin;
use oxe_proto::wire::{
    AtomicEthRepr, Ext, IethRepr, ImmDtRepr, Kind, Opcode, Position, RethRepr, Service, Tail,
};

/// A request that has begun and is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) n: u32,
    /// Its packets, counted from the first of the connection.
    pub(super) first: u64,
    pub(super) end: u64,
    /// A READ or atomic, whose response is more than an ACK.
    pub(super) answered: bool,
}

/// The packet `from` of a request.
pub(super) fn request_packet(
    attr: &Attr,
    request: &Request,
    begun: &Begun,
    from: u64,
    psn: u32,
) -> Transmit {
    let n = begun.n;
    let offset = (from - begun.first) as u32 * attr.pmtu;
    let reth = |va: u64, dma_len| RethRepr {
        va,
        rkey: request.rkey,
        dma_len,
    };
    let atomic = |swap_add, compare| {
        Ext::Atomic(AtomicEthRepr {
            va: request.va,
            rkey: request.rkey,
            swap_add,
            compare,
        })
    };
    let (opcode, ext) = match request.op {
        SendOp::CompareSwap { compare, swap } => (Opcode::RcCompareSwap, atomic(swap, compare)),
        SendOp::FetchAdd { add } => (Opcode::RcFetchAdd, atomic(add, 0)),
        SendOp::AtomicWrite => {
            let bth = attr.bth(Opcode::RcAtomicWrite, psn, 8);
            let ext = Ext::Reth(reth(request.va, 8));
            let payload = Payload::Request {
                n,
                offset: 0,
                len: 8,
            };
            return packet(bth, ext, payload, Origin::Request { n });
        }
        SendOp::Flush { feth, len } => (Opcode::RcFlush, Ext::Flush(feth, reth(request.va, len))),
        SendOp::Read => {
            let va = request.va.wrapping_add(offset.into());
            (
                Opcode::RcReadRequest,
                Ext::Reth(reth(va, request.len - offset)),
            )
        }
        _ => {
            let (starts, ends) = (from == begun.first, from + 1 == begun.end);
            return message_packet(attr, request, begun, (starts, ends), psn, offset);
        }
    };
    let bth = attr.bth(opcode, psn, 0);
    packet(bth, ext, Payload::None, Origin::Request { n })
}

/// The packet of a SEND or WRITE.
fn message_packet(
    attr: &Attr,
    request: &Request,
    begun: &Begun,
    (starts, ends): (bool, bool),
    psn: u32,
    offset: u32,
) -> Transmit {
    let n = begun.n;
    let write = matches!(request.op, SendOp::Write | SendOp::WriteImm(_));
    let reth = (write && starts).then_some(RethRepr {
        va: request.va,
        rkey: request.rkey,
        dma_len: request.len,
    });
    let (tail, imm, inv) = match request.op {
        SendOp::SendImm(data) | SendOp::WriteImm(data) if ends => {
            (Tail::Imm, Some(ImmDtRepr { data }), None)
        }
        SendOp::SendInv(rkey) if ends => (Tail::Inv, None, Some(IethRepr { rkey })),
        _ => (Tail::Plain, None, None),
    };
    let ext = match (reth, imm, inv) {
        (Some(reth), Some(imm), _) => Ext::RethImm(reth, imm),
        (Some(reth), None, _) => Ext::Reth(reth),
        (None, Some(imm), _) => Ext::Imm(imm),
        (None, None, Some(inv)) => Ext::Inv(inv),
        (None, None, None) => Ext::None,
    };
    let kind = if write { Kind::Write } else { Kind::Send };
    let position = Position::of(starts, ends);
    let opcode = Opcode::compose(Service::Rc, kind, position, tail).expect("there is one for each");
    let len = (request.len - offset).min(attr.pmtu);
    let mut bth = attr.bth(opcode, psn, len);
    bth.solicited = ends && request.solicited && request.op != SendOp::Write;
    let payload = match len {
        0 => Payload::None,
        _ => Payload::Request { n, offset, len },
    };
    packet(bth, ext, payload, Origin::Request { n })
}
