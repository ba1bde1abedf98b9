// SPDX-License-Identifier: GPL-2.0

//! The judge of what is the same of all packets that a QP sends: addresses, length, padding, and
//! that no request begins while its send queue drains.

use super::decode::Seen;
use super::view::View;
use crate::check::{ensure, Violation};
use crate::model::outcome::Pause;

impl View<'_> {
    /// A packet leaves a QP. In SQD no request begins (IBTA 10.3.1).
    pub fn check_sent(&self, qp: usize, seen: &Seen) -> Result<(), Violation> {
        let (q, dest) = (&self.qps[qp], self.peer(qp).qpn);
        let len = seen.payload.len();
        ensure!(seen.dest_qp == dest, "qp{qp}: sends to {:#x}", seen.dest_qp);
        ensure!(seen.pkey == q.setup.pkey, "qp{qp}: P_Key {:#x}", seen.pkey);
        let fits = len <= q.setup.pmtu as usize;
        ensure!(fits, "qp{qp}: longer than the path MTU");
        let pad = seen.pad == len.wrapping_neg() as u8 & 3;
        ensure!(pad, "qp{qp}: pad {}", seen.pad);
        if let (false, Pause::Draining(begun) | Pause::Drained(begun)) =
            (seen.is_response(), q.pause)
        {
            let index = q.flow.op_at(q.flow.packet(seen.psn));
            ensure!(
                "IBTA 10.3.1",
                index.is_some_and(|i| i < begun),
                "qp{qp}: request {index:?} begins in SQD"
            );
        }
        Ok(())
    }
}
