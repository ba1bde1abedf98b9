// SPDX-License-Identifier: GPL-2.0

//! The judge of loopback packets, whose payloads are lent: no request completes while its payload
//! is lent, and nothing is flushed while any payload is. A request is not sent before the ACK of
//! the messages that its sender has received.

use super::decode::{op, Seen};
use super::view::View;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::lending::Lending;
use crate::model::verb::Verb;

/// A completion: the memory is the consumer's again.
pub fn check_lent(lending: Lending, completion: &SendCompletion) -> Result<(), Violation> {
    let Lending { any, first } = lending;
    let flushed = completion.status == Status::WrFlush;
    let early = first.is_some_and(|first| completion.n >= first) || any && flushed;
    ensure!(
        "design: a request completes when its payload is not lent",
        !early,
        "{completion:?} while its payload is lent"
    );
    Ok(())
}

/// The packets that a response acknowledges end before this one. A NAK acknowledges those before
/// its own.
pub fn acknowledged(packet: u64, seen: &Seen) -> u64 {
    packet + u64::from(seen.opcode != op::ACK || seen.is_ack())
}

impl View<'_> {
    /// A request packet leaves a QP: all messages that it has received before are acknowledged.
    pub fn check_acknowledged(&self, qp: usize, seen: &Seen) -> Result<(), Violation> {
        let (p, watch) = (self.peer(qp), &self.watches[self.qps[qp].peer]);
        // One that was sent may be sent again.
        let mut open = p.flow.ops.iter().skip(p.flow.completed);
        if watch.answers.owes_any() || open.any(|op| op.verb.is_read_like()) {
            return Ok(());
        }
        let mut done = p.flow.ops.iter().filter(|op| {
            let message = op.verb.consumes() || op.verb == Verb::Write;
            let end = op.first + op.span;
            message && end <= watch.accepted && end > p.acknowledged
        });
        let owed = done.next();
        ensure!(
            "design: an ACK comes before the next request",
            owed.is_none(),
            "qp{qp}: sends {:x} with PSN {:x} before the ACK of packet {}",
            seen.opcode,
            seen.psn,
            owed.map_or(0, |op| op.first)
        );
        Ok(())
    }
}
