// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: its checks of a response that leaves the responder.

use super::{Limits, Watch};
use crate::check::{ensure, Violation};
use crate::judge::decode::{is_fatal, op, Seen};
use crate::judge::expect::chunk;
use crate::model::fault::Fault;
use crate::model::flow::Flow;
use crate::model::op::Op;
use crate::model::verb::Verb;

impl Watch {
    /// A response leaves the responder, which is the foreign peer or not. An ACK is about requests
    /// that were carried out (IBTA 9.7.5.1.2), and a NAK about the one that the responder expects:
    /// it acknowledges those before (IBTA 9.7.5.2).
    pub fn response_sent(
        &mut self,
        now: u64,
        flow: &Flow,
        foreign: bool,
        seen: &Seen,
    ) -> Result<(), Violation> {
        let packet = flow.packet(seen.psn);
        let mut least = packet;
        match seen.opcode {
            op::ACK => {
                let (syndrome, _) = seen.aeth.unwrap_or_default();
                if is_fatal(syndrome) {
                    // Of a READ it comes when the answer cannot be sent.
                    ensure!(
                        "IBTA 9.7.5.2",
                        packet <= self.accepted,
                        "NAK {syndrome:#x} of {packet}"
                    );
                } else if syndrome >> 5 != 0 {
                    ensure!(
                        "IBTA 9.7.5.2",
                        packet == self.accepted,
                        "NAK {syndrome:#x} of {packet}, expecting {}",
                        self.accepted
                    );
                } else {
                    ensure!(
                        "IBTA 9.7.5.1.2",
                        packet < self.accepted,
                        "ACK of {packet}, expecting {}",
                        self.accepted
                    );
                    least += 1;
                }
            }
            op::ATOMIC_ACK => self.check_atomic_ack(flow, packet, seen)?,
            _ => self.check_read_response(flow, packet, seen)?,
        }
        if foreign {
            return Ok(());
        }
        self.check_msn(flow, packet, seen)?;
        self.answers.check(now, packet, least, seen)
    }

    /// The MSN is the number of messages that the responder has completed (IBTA 9.7.7.1). A READ is
    /// complete when it is accepted, and its answer has the number that it had then.
    fn check_msn(&self, flow: &Flow, packet: u64, seen: &Seen) -> Result<(), Violation> {
        let Some((_, msn)) = seen.aeth else {
            return Ok(());
        };
        let answered = flow.op_at(packet).map(|index| &flow.ops[index]);
        let end = match answered {
            Some(op) if seen.opcode != op::ACK => op.first + op.chunk_end(packet - op.first),
            _ => self.accepted,
        };
        let expected = flow.messages_before(end) & 0xff_ffff;
        ensure!(
            "IBTA 9.7.7.1",
            u64::from(msn) == expected,
            "MSN {msn}, not {expected}, in {seen:x?}"
        );
        Ok(())
    }

    /// A response has reached the requester, which has no page for it: it acknowledges all before
    /// its own request, and the requester asks for it again, without counting a retry. To the
    /// foreign peer it is lost.
    pub fn response_missed(&mut self, now: u64, flow: &Flow, limits: Limits, seen: &Seen) {
        let (packet, before) = (flow.packet(seen.psn), self.una);
        self.acknowledge(now, flow, packet);
        if self.una != before {
            self.wait_until = 0;
        }
        self.finished -= usize::from(self.answered.remove(&packet));
        self.answers.postpone(now);
        if limits.foreign {
            return self.packets_harmed(1);
        }
        self.missed += 1;
        self.may_resend = true;
        self.gaps.may_forget();
        self.nak_heeded = None;
        self.may_go_back();
    }

    fn answered_op<'a>(&self, flow: &'a Flow, packet: u64) -> Result<&'a Op, Violation> {
        ensure!(
            packet < self.accepted,
            "answer to {packet}, expecting {}",
            self.accepted
        );
        let index = flow.op_at(packet).ok_or("answer to nothing")?;
        Ok(&flow.ops[index])
    }

    /// An atomic returns what it found (IBTA 9.4.5), also when it is asked for again
    /// (IBTA 9.7.5.1.3).
    fn check_atomic_ack(&self, flow: &Flow, packet: u64, seen: &Seen) -> Result<(), Violation> {
        let request = self.answered_op(flow, packet)?;
        ensure!(
            request.verb.is_atomic(),
            "atomic answer to {:?}",
            request.verb
        );
        let found = u64::from_ne_bytes(request.data[..8].try_into().map_err(|_| "no operand")?);
        let original = seen.original;
        ensure!(
            "IBTA 9.4.5",
            original == Some(found),
            "atomic found {original:x?}, expected {found:#x}"
        );
        Ok(())
    }

    /// The response to a READ is packets from first to last with the bytes asked for (IBTA 9.4.4),
    /// that to an ATOMIC WRITE or FLUSH one without payload (IBTA annex A19.4).
    fn check_read_response(&self, flow: &Flow, packet: u64, seen: &Seen) -> Result<(), Violation> {
        let request = self.answered_op(flow, packet)?;
        if matches!(request.verb, Verb::AtomicWrite | Verb::Flush { .. }) {
            let empty = seen.opcode == op::READ_ONLY && seen.payload.is_empty();
            ensure!(
                "IBTA annex A19.4",
                empty,
                "answer to {:?} in {seen:x?}",
                request.verb
            );
            return Ok(());
        }
        ensure!(
            request.verb == Verb::Read,
            "read answer to {:?}",
            request.verb
        );
        let k = packet - request.first;
        let range = chunk(flow, request, k).ok_or("read answer beyond its data")?;
        let len = seen.payload.len();
        ensure!(
            "IBTA 9.4.4",
            len == range.len(),
            "{len} bytes, not {} in {seen:x?}",
            range.len()
        );
        let ends = matches!(seen.opcode, op::READ_LAST | op::READ_ONLY);
        ensure!(
            "IBTA 9.4.4",
            ends == (k + 1 == request.chunk_end(k)) || ends && self.gaps.may_end(packet + 1),
            "wrong end of a read in {seen:x?}"
        );
        let starts = matches!(seen.opcode, op::READ_FIRST | op::READ_ONLY);
        ensure!(
            "IBTA 9.4.4",
            starts || !request.starts_chunk(k),
            "wrong start of a read in {seen:x?}"
        );
        // Of a READ that ends beyond its region all chunks but the last are answered, with whatever
        // is there.
        let known = request.inbox.is_none() && request.fault != Some(Fault::NotEnabled);
        if known {
            ensure!(
                "IBTA 9.4.4",
                seen.payload == &request.data[range],
                "wrong data in {seen:x?}"
            );
        }
        Ok(())
    }
}
