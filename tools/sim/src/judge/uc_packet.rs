// SPDX-License-Identifier: GPL-2.0

//! How the packets of a UC message must look.

use crate::judge::decode::{op, Seen};
use crate::model::uc::{Message, Verb};

/// Packet `k` as it has to look (IBTA 9.2, 9.2.3, 9.7.2), but for PSN and addresses. AckReq is
/// never set: nothing is acknowledged (IBTA 9.8.2).
pub fn packet_expected(message: &Message, k: u32, pmtu: u32) -> Seen<'_> {
    let (first, last) = (k == 0, message.ends_with(k));
    let opcodes = match (message.verb, message.imm.is_some()) {
        (Verb::Send, false) => [op::SEND_FIRST, op::SEND_LAST, op::SEND_ONLY],
        (Verb::Send, true) => [op::SEND_FIRST, op::SEND_LAST_IMM, op::SEND_ONLY_IMM],
        (_, false) => [op::WRITE_FIRST, op::WRITE_LAST, op::WRITE_ONLY],
        (_, true) => [op::WRITE_FIRST, op::WRITE_LAST_IMM, op::WRITE_ONLY_IMM],
    };
    let middle = match message.verb {
        Verb::Send => op::SEND_MIDDLE,
        _ => op::WRITE_MIDDLE,
    };
    let writes = message.verb == Verb::Write;
    let payload = &message.data[message.chunk(k, pmtu)];
    Seen {
        opcode: match (first, last) {
            (true, false) => opcodes[0],
            (false, false) => middle,
            (false, true) => opcodes[1],
            (true, true) => opcodes[2],
        },
        solicited: last && message.solicited && (message.imm.is_some() || !writes),
        pad: payload.len().wrapping_neg() as u8 & 3,
        reth: (first && writes).then_some((message.va, message.rkey, message.len())),
        imm: message.imm.filter(|_| last),
        payload,
        ..Seen::default()
    }
}
