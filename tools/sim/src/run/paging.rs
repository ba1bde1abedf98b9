// SPDX-License-Identifier: GPL-2.0

//! The judge of missing pages (on-demand paging).
//!
//! - A request whose page is missing gets an RNR NAK and changes nothing (IBTA 9.7.5.2.8). The
//!   receive that its first packet has taken stays taken, for that packet when it comes again.
//! - A response whose page is missing acknowledges the requests before its own all the same
//!   (IBTA 9.7.5.1.1), and is asked for again. Nothing was lost: no retry is counted.
//! - A UC message is lost, and the receive that it has taken serves the next one (IBTA 9.8.2.2).
//! - A packet whose payload cannot be read yet is taken back, and comes again as it was. It does
//!   not hold up the other half of its QP.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::Notes;
use crate::judge::decode::Seen;
use crate::judge::requester_wire::Limits;
use crate::judge::stats::Observation;
use crate::run::world::World;
use oxe_proto::transport::Origin;

impl World {
    /// Whether the payload of packets that a QP wants to send cannot be read now.
    pub fn is_payload_missing(&mut self, qp: usize, transmit: &Transmit) -> bool {
        let q = &mut self.qps[qp];
        // The foreign peer takes no packet back.
        let pages = match transmit.origin {
            Origin::Request { .. } => &mut q.sent_pages,
            _ => &mut q.read_pages,
        };
        let missing = !q.conn.is_foreign() && pages.is_payload_missing(self.now, &transmit.payload);
        let peer = q.peer;
        if missing {
            self.count(Observation::PayloadMissing);
        }
        if missing && transmit.origin == Origin::Response {
            self.watches[peer].answers.postpone(self.now);
        }
        missing
    }

    /// A packet is dropped because a page is missing, and for no other reason. Shows the judge on
    /// the wire, also if there was no receive.
    pub fn judge_missing(
        &mut self,
        qp: usize,
        seen: Option<&Seen>,
        verdict: Verdict,
        notes: &Notes,
    ) -> Result<(), Violation> {
        let dropped = verdict == Verdict::Dropped(DropReason::NotPresent);
        ensure!(
            dropped == notes.missing,
            "qp{qp}: {verdict:?}, page missing: {}",
            notes.missing
        );
        if notes.again {
            self.count(Observation::ReceiveAgain);
        }
        let q = &mut self.qps[qp];
        if notes.touched {
            q.taken_pages.settle(dropped);
        }
        let response = seen.filter(|seen| dropped && seen.is_response());
        if let Some(seen) = response {
            let limits = Limits::of(q);
            self.watches[qp].response_missed(self.now, &q.flow, limits, seen);
        } else if notes.empty || dropped {
            let (peer, timer) = (q.peer, q.setup.min_rnr_timer);
            self.watches[peer].answers.not_ready(timer);
        }
        Ok(())
    }
}
