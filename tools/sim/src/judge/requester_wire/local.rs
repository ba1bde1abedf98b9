// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: when a local operation may begin.

use super::Watch;
use crate::check::{ensure, Violation};
use crate::model::flow::Flow;
use crate::model::op::Op;
use crate::model::verb::Verb;

impl Watch {
    /// Whether a packet was ever sent.
    pub fn was_sent(&self, packet: u64) -> bool {
        packet < self.sent.len() as u64
    }

    /// How many requests have begun.
    pub fn begun(&self, flow: &Flow) -> usize {
        let begun = |op: &&Op| match op.verb {
            Verb::Local(_) => op.carried_out,
            _ => self.has_begun(op) || self.was_taken_back(op),
        };
        flow.ops.iter().take_while(begun).count()
    }

    /// Request `index`, a local operation, begins. Requests begin in the order of posting; a fenced
    /// one waits for the READs and atomics before it (IBTA 10.8.3.3).
    pub fn check_local(&self, flow: &Flow, index: usize) -> Result<(), Violation> {
        let request = &flow.ops[index];
        let (first, high) = (request.first, self.sent.len() as u64);
        ensure!(
            "IBTA 10.8.3.3",
            first == high,
            "begins after packet {high}, not {first}"
        );
        let open = self.unanswered(flow, first).filter(|_| request.fence);
        ensure!(
            "IBTA 10.8.3.3",
            open.is_none(),
            "is fenced, and {open:?} is not answered"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused, Wire};
    use crate::judge::decode::{op, Seen};
    use crate::model::verb::{Local, Verb};

    const LOCAL: (Verb, usize) = (Verb::Local(Local::Bind), 0);

    #[test]
    fn local_requests_begin_in_order() {
        let mut wire = Wire::new(&[LOCAL, (Verb::Send, 300), LOCAL, LOCAL, (Verb::Send, 1)]);
        let check = |wire: &Wire, index| wire.watch.check_local(&wire.flow, index);
        check(&wire, 0).unwrap();
        refused(check(&wire, 2), "begins after packet 0, not 2");
        wire.send_packet(0).unwrap();
        refused(check(&wire, 2), "begins after packet 1, not 2");
        wire.send_packet(1).unwrap();
        check(&wire, 2).unwrap();
        check(&wire, 3).unwrap();
        wire.send_packet(2).unwrap();
        refused(check(&wire, 3), "begins after packet 3, not 2");
    }

    #[test]
    fn fenced_ones_wait_for_answers() {
        let mut wire = Wire::new(&[(Verb::Read, 300), (Verb::Send, 1), LOCAL]);
        wire.flow.ops[2].fence = true;
        wire.send_packet(0).unwrap();
        wire.send_packet(2).unwrap();
        let data: Vec<u8> = (0..300).map(|i| i as u8).collect();
        for (packet, opcode) in [(0, op::READ_FIRST), (1, op::READ_LAST)] {
            let check = wire.watch.check_local(&wire.flow, 2);
            refused(check, "is not answered");
            let part = Seen {
                payload: &data[..0],
                ..wire.answer(opcode, packet, 0x1f, 1)
            };
            wire.heed(&part).unwrap();
        }
        // The SEND need not be acknowledged.
        wire.watch.check_local(&wire.flow, 2).unwrap();
    }
}
