// SPDX-License-Identifier: GPL-2.0

//! How the packets of a request must look, from first to last: opcodes and headers (IBTA 9.2; of
//! ATOMIC WRITE and FLUSH IBTA annex A19.4), successive PSNs (IBTA 9.7.2), and SE in the last one
//! alone (IBTA 9.2.3).

use crate::check::{ensure, Violation};
use crate::judge::decode::{op, Seen};
use crate::model::flow::Flow;
use crate::model::op::Op;
use crate::model::verb::Verb;

/// Opcode and position of a packet of a SEND or WRITE.
fn request_opcode(request: &Op, k: u64) -> u8 {
    let (first, last) = (k == 0, k + 1 == request.span);
    let [f, m, l, o] = match request.verb {
        Verb::Send => [
            op::SEND_FIRST,
            op::SEND_MIDDLE,
            op::SEND_LAST,
            op::SEND_ONLY,
        ],
        Verb::SendImm => [
            op::SEND_FIRST,
            op::SEND_MIDDLE,
            op::SEND_LAST_IMM,
            op::SEND_ONLY_IMM,
        ],
        Verb::SendInv => [
            op::SEND_FIRST,
            op::SEND_MIDDLE,
            op::SEND_LAST_INV,
            op::SEND_ONLY_INV,
        ],
        Verb::Write => [
            op::WRITE_FIRST,
            op::WRITE_MIDDLE,
            op::WRITE_LAST,
            op::WRITE_ONLY,
        ],
        Verb::WriteImm => [
            op::WRITE_FIRST,
            op::WRITE_MIDDLE,
            op::WRITE_LAST_IMM,
            op::WRITE_ONLY_IMM,
        ],
        Verb::Read => [op::READ_REQUEST; 4],
        Verb::CompareSwap { .. } => [op::COMPARE_SWAP; 4],
        Verb::FetchAdd { .. } => [op::FETCH_ADD; 4],
        Verb::AtomicWrite => [op::ATOMIC_WRITE; 4],
        Verb::Flush { .. } => [op::FLUSH; 4],
        // It has no packets.
        Verb::Local(_) => [u8::MAX; 4],
    };
    match (first, last) {
        (true, true) => o,
        (true, false) => f,
        (false, true) => l,
        (false, false) => m,
    }
}

/// The expected packet number `k` of the request, but for AckReq, pad and addresses. Of a READ it
/// asks for the packets before number `end`.
pub fn expected_request(flow: &Flow, request: &Op, k: u64, end: u64) -> Seen<'static> {
    let (first, last) = (k == 0, k + 1 == request.span);
    let mut seen = Seen {
        opcode: request_opcode(request, k),
        psn: flow.psn(request.first + k),
        ..Seen::default()
    };
    let skip = (k * u64::from(flow.pmtu)) as u32;
    let Op { va, rkey, len, .. } = *request;
    match request.verb {
        // A READ resumes where its response broke off.
        Verb::Read => {
            let end = end * u64::from(flow.pmtu);
            let end = end.min(len.into()) as u32;
            seen.reth = Some((va.wrapping_add(skip.into()), rkey, end - skip));
        }
        Verb::Write | Verb::WriteImm if first => seen.reth = Some((va, rkey, len)),
        Verb::AtomicWrite => seen.reth = Some((va, rkey, len)),
        Verb::Flush {
            placement,
            level,
            range,
        } => {
            seen.feth = Some((u32::from(level) << 4) | u32::from(placement));
            seen.reth = Some((va, rkey, range));
        }
        Verb::CompareSwap { compare, swap } => seen.atomic = Some((va, rkey, swap, compare)),
        Verb::FetchAdd { add } => seen.atomic = Some((va, rkey, add, 0)),
        _ => {}
    }
    seen.imm =
        (last && matches!(request.verb, Verb::SendImm | Verb::WriteImm)).then_some(request.imm);
    seen.inv = (last && request.verb == Verb::SendInv).then_some(request.inv);
    seen.solicited = last && request.solicited && request.verb.consumes();
    seen
}

/// The bytes of the request's data that belong to its packet `k`.
pub fn chunk(flow: &Flow, request: &Op, k: u64) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(k).ok()? * flow.pmtu as usize;
    let to = (from + flow.pmtu as usize).min(request.len as usize);
    (from <= to).then_some(from..to)
}

/// Whether the packet is number `k` of the request, and of a READ asks for those before number
/// `end`.
pub fn check_request(
    flow: &Flow,
    request: &Op,
    k: u64,
    end: u64,
    seen: &Seen,
) -> Result<(), Violation> {
    let mut expected = expected_request(flow, request, k, end);
    if request.verb.carries_data() {
        let range = chunk(flow, request, k).ok_or("request beyond its data")?;
        ensure!(
            seen.payload == &request.data[range],
            "wrong payload in {seen:x?}"
        );
    } else {
        ensure!(seen.payload.is_empty(), "payload in {seen:x?}");
    }
    if let (Some(e), Some(s)) = (&mut expected.atomic, &seen.atomic) {
        if request.verb
            != (Verb::CompareSwap {
                compare: e.3,
                swap: e.2,
            })
        {
            e.3 = s.3; // meaningless for fetch and add
        }
    }
    let same = Seen {
        ack_req: expected.ack_req,
        pad: expected.pad,
        pkey: expected.pkey,
        dest_qp: expected.dest_qp,
        payload: &[],
        ..seen.clone()
    };
    ensure!(
        "IBTA 9.2, 9.7.2",
        same == expected,
        "sent {same:x?}, expected {expected:x?}"
    );
    Ok(())
}
