// SPDX-License-Identifier: GPL-2.0

//! Missing pages: what the device makes of them.

use crate::api::*;
use crate::check::Violation;
use crate::host::env::Notes;
use crate::judge::decode::Seen;
use crate::judge::paging::check_missing;
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

    /// Shows the judges whether a page is missing, and the one on the wire also whether there was
    /// no receive.
    pub fn judge_missing(
        &mut self,
        qp: usize,
        seen: Option<&Seen>,
        verdict: Verdict,
        notes: &Notes,
    ) -> Result<(), Violation> {
        let dropped = verdict == Verdict::Dropped(DropReason::NotPresent);
        check_missing(verdict, notes).map_err(|found| found.at(format_args!("qp{qp}")))?;
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
