// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire: how much a READ request asks for, and all of them together.

use super::Watch;
use crate::check::{ensure, Violation};
use crate::judge::decode::Seen;
use crate::model::flow::Flow;
use crate::model::op::{Op, READ_CHUNK};
use crate::model::verb::Verb;

impl Watch {
    /// A READ request for request `index` leaves its requester. The first one for a packet tells to
    /// which chunk that belongs.
    pub fn read_sent(&self, flow: &mut Flow, index: usize, seen: &Seen) -> Result<(), Violation> {
        let op = &flow.ops[index];
        let next = op.first + op.asked_end();
        let fresh = op.verb == Verb::Read && flow.packet(seen.psn) == next;
        let Some((_, _, len)) = seen.reth.filter(|_| fresh) else {
            return Ok(());
        };
        let packets = u64::from(len.div_ceil(flow.pmtu)).max(1);
        ensure!(
            "design: READ chunks",
            packets <= READ_CHUNK.max(self.cwnd.read_window() / 8 + 2),
            "asks for {packets} packets at once"
        );
        let end = op.asked_end() + packets;
        flow.ask(index, end);
        Ok(())
    }

    /// A READ or atomic that is not the only one in flight ends within the READ window.
    pub(super) fn check_read_window(
        &self,
        flow: &Flow,
        request: &Op,
        packet: u64,
        end: u64,
    ) -> Result<(), Violation> {
        let psns = end.saturating_sub(self.una);
        let most = self.cwnd.read_window() + self.gaps.kept();
        if !request.verb.is_read_like() || psns <= most {
            return Ok(());
        }
        let others = self.unanswered(flow, packet).is_some();
        ensure!(
            "design: READ window",
            !others,
            "{psns} PSNs in flight to the end of a READ, {most} allowed"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused, Wire};
    use crate::model::verb::Verb;

    #[test]
    fn a_read_asks_for_a_chunk() {
        let mut wire = Wire::new(&[(Verb::Read, 256 * 123)]);
        let mut seen = wire.request(0);
        wire.watch.read_sent(&mut wire.flow, 0, &seen).unwrap();
        let (va, rkey, len) = seen.reth.unwrap();
        assert_eq!((len, wire.flow.ops[0].asked_end()), (256 * 122, 122));
        wire.flow.ops[0].asked.clear();
        seen.reth = Some((va, rkey, len + 256));
        let result = wire.watch.read_sent(&mut wire.flow, 0, &seen);
        refused(result, "asks for 123 packets at once");
    }
}
