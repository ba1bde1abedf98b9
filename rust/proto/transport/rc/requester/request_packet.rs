// SPDX-License-Identifier: GPL-2.0

//! The packets of READs, atomics, ATOMIC WRITEs and FLUSHes: headers and payload
//! (IBTA 9.2, 9.4, IBTA annex A19.4).

use super::common::message_packet::header;
use super::common::{Attr, Origin, Payload, Request, SendOp, Transmit, ATOMIC_LEN};
use super::wire::{AtomicEthRepr, Ext, Opcode, RethRepr};

/// The packet of an atomic, an ATOMIC WRITE or a FLUSH, or of a READ, from response packet `index`
/// to the one before `end`, the end of its chunk at most: after a loss the requester asks for the
/// missing part alone (IBTA 9.7.6.1, 9.9.2.1).
#[inline]
pub(super) fn rd_atomic_request_packet(
    request: &Request,
    n: u32,
    index: u32,
    end: u32,
    attr: &Attr,
) -> Transmit {
    let atomic = |swap_add, compare| {
        Ext::Atomic(AtomicEthRepr {
            va: request.va,
            rkey: request.rkey,
            swap_add,
            compare,
        })
    };
    let reth = |offset: u32, dma_len| RethRepr {
        va: request.va.wrapping_add(u64::from(offset)),
        rkey: request.rkey,
        dma_len,
    };
    let mut payload = Payload::None;
    let (opcode, ext) = match request.op {
        SendOp::CompareSwap { compare, swap } => (Opcode::RcCompareSwap, atomic(swap, compare)),
        SendOp::FetchAdd { add } => (Opcode::RcFetchAdd, atomic(add, 0)),
        SendOp::AtomicWrite => {
            let len = ATOMIC_LEN;
            payload = Payload::Request { n, offset: 0, len };
            (Opcode::RcAtomicWrite, Ext::Reth(reth(0, len)))
        }
        SendOp::Flush { feth, len } => (Opcode::RcFlush, Ext::Flush(feth, reth(0, len))),
        _ => {
            let offset = attr.pmtu.offset(index);
            let end = attr.pmtu.offset(end).min(request.len);
            let rest = end.saturating_sub(offset);
            (Opcode::RcReadRequest, Ext::Reth(reth(offset, rest)))
        }
    };
    let mut header = header(opcode, request.first_psn.add(index), ext, attr);
    header.bth.ack_req = true;
    Transmit {
        header,
        payload,
        origin: Origin::Request { n },
        segments: 1,
    }
}
