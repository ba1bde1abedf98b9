// SPDX-License-Identifier: GPL-2.0

//! The judge of the packets that a UC QP sends. Messages begin in the order of posting, PSNs are
//! consecutive (IBTA 9.7.2), and nothing is sent again or acknowledged (IBTA 9.8.2).

use super::UcView;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::judge::decode::{op, Seen};
use crate::model::uc::{Message, Phase, Verb};

impl UcView<'_> {
    /// A message begins, or goes on. It begins in RTS alone, and goes on in SQD, too
    /// (IBTA 10.3.1, 10.3.1.5); not after a failure (IBTA 10.3.1.6).
    pub fn check_begins(&self, end: usize, m: usize) -> Result<(), Violation> {
        let e = &self.ends[end];
        let state = e.qp.state();
        let message = &e.flow.messages[m];
        let may_begin = state == State::Rts && e.phase == Phase::Up;
        let may_go_on = may_begin || state == State::Sqd && e.phase == Phase::Draining;
        let begins = message.sent == 0;
        ensure!(
            "IBTA 10.3.1",
            if begins { may_begin } else { may_go_on },
            "uc{end}: sends packet {} of {m} in {state:?}, {:?}",
            message.sent,
            e.phase
        );
        let fine = !message.is_local() && !message.failed && !message.finished;
        ensure!("IBTA 10.3.1.6", fine, "uc{end}: sends {m}, {message:?}");
        Ok(())
    }

    /// A packet is as it has to be: the next one of the message whose turn it is.
    pub fn check_packet(&self, end: usize, m: usize, seen: &Seen) -> Result<(), Violation> {
        self.check_begins(end, m)?;
        let e = &self.ends[end];
        let message = &e.flow.messages[m];
        let k = message.sent;
        ensure!(
            "IBTA 9.8.2",
            k < message.span,
            "uc{end}: {m} is sent, then {seen:x?}"
        );
        let expected = Seen {
            psn: e.flow.psn,
            dest_qp: self.peer(end).qpn,
            pkey: e.pkey,
            ..packet_expected(message, k, e.pmtu)
        };
        ensure!(
            "IBTA 9.2, 9.7.2",
            *seen == expected,
            "uc{end}: packet {k} of {m} is {seen:x?}, not {expected:x?}"
        );
        Ok(())
    }

    /// The payload of a message that was not copied yet is still in its memory.
    pub fn check_payload(&self, end: usize, m: usize) -> Result<(), Violation> {
        let e = &self.ends[end];
        let message = &e.flow.messages[m];
        let memory = &self.hosts[e.host].memory;
        let same = memory.read(message.at, message.data.len()) == message.data;
        ensure!(same, "uc{end}: the payload of {m} is no longer there");
        Ok(())
    }
}

/// Packet `k` as it has to look (IBTA 9.2, 9.2.3, 9.7.2), but for PSN and addresses. AckReq is
/// never set: nothing is acknowledged (IBTA 9.8.2).
pub(super) fn packet_expected(message: &Message, k: u32, pmtu: u32) -> Seen<'_> {
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
