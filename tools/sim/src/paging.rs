// SPDX-License-Identifier: GPL-2.0

//! Missing pages (on-demand paging): accesses of a device to memory that find a page missing, and
//! the judge of the consequences.
//!
//! - A request whose page is missing gets an RNR NAK and changes nothing (IBTA 9.7.5.2.8). The
//!   receive that its first packet has taken stays taken, for that packet when it comes again.
//! - A response whose page is missing acknowledges the requests before its own all the same
//!   (IBTA 9.7.5.1.1), and is asked for again. Nothing was lost: no retry is counted.
//! - A UC message is lost, and the receive that it has taken serves the next one (IBTA 9.8.2.2).
//! - A packet whose payload cannot be read yet is taken back, and comes again as it was. It does
//!   not hold up the other half of its QP.

use crate::api::*;
use crate::check::ensure;
use crate::decode::Seen;
use crate::device::Notes;
use crate::profile::{Plan, MS};
use crate::rng::{Ppm, Rng};
use crate::world::World;
use oxe_proto::transport::Origin;

/// The pages of one end, for packets that it takes or for those that it sends.
#[derive(Debug)]
pub struct Paging {
    rng: Rng,
    /// An access finds a page missing, at most so many in a row, before the time `until` in ns.
    chance: Ppm,
    most: u64,
    until: u64,
    /// How many accesses in a row have found one missing.
    row: u64,
    /// Some pages are missing for at most so long, ns; one of them until `back_at`.
    long: u64,
    back_at: u64,
}

impl Paging {
    /// The pages as the plan wants them. `rng` is left as it is.
    pub fn new(plan: &Plan, rng: &Rng, subject: u64) -> Paging {
        Paging {
            rng: rng.clone().fork(subject),
            chance: plan.absent,
            most: plan.absent_row,
            until: plan.heal_at,
            row: 0,
            long: plan.absent_long,
            back_at: 0,
        }
    }

    /// Pages of READ responses: none is missing for as long as an ACK timeout, as the peer might
    /// run out of retries.
    pub fn of_responses(plan: &Plan, rng: &Rng, subject: u64) -> Paging {
        Paging {
            long: plan.absent_long.min(MS),
            ..Paging::new(plan, rng, subject)
        }
    }

    /// Whether the next access, which is at `now` if there is one, finds a page missing.
    pub fn is_absent(&mut self, now: u64) -> bool {
        self.row < self.most && now < self.until && self.rng.chance(self.chance)
    }

    /// There was an access, and it has found a page missing or not.
    pub fn settle(&mut self, absent: bool) {
        self.row = if absent { self.row + 1 } else { 0 };
    }

    /// Whether the payload of a packet to be sent cannot be read now.
    pub fn hides(&mut self, now: u64, payload: &Payload) -> bool {
        if *payload == Payload::None {
            return false;
        }
        let absent = now < self.back_at || self.is_absent(now);
        if absent && self.row == 0 && self.long != 0 && self.rng.one_in(4) {
            self.back_at = (now + self.rng.below(self.long)).min(self.until);
        }
        self.settle(absent);
        absent
    }
}

impl World {
    /// Whether the payload of packets that a QP wants to send cannot be read now.
    pub fn is_hidden(&mut self, qp: usize, transmit: &Transmit) -> bool {
        let q = &mut self.qps[qp];
        // The foreign peer takes no packet back.
        let pages = match transmit.origin {
            Origin::Request { .. } => &mut q.sent_pages,
            _ => &mut q.read_pages,
        };
        let hidden = !q.conn.is_foreign() && pages.hides(self.now, &transmit.payload);
        self.stats.hidden += u64::from(hidden);
        if hidden && transmit.origin == Origin::Response {
            let peer = q.peer;
            self.qps[peer].watch.answers.postpone(self.now);
        }
        hidden
    }

    /// A packet is dropped because a page is missing, and for no other reason. Tells the judge on
    /// the wire, also if there was no receive.
    pub fn judge_missing(
        &mut self,
        qp: usize,
        seen: Option<&Seen>,
        verdict: Verdict,
        notes: &Notes,
    ) -> Result<(), String> {
        let dropped = verdict == Verdict::Dropped(DropReason::NotPresent);
        ensure!(
            dropped == notes.missing,
            "qp{qp}: {verdict:?}, page missing: {}",
            notes.missing
        );
        self.stats.retaken += u64::from(notes.again);
        self.stats.missing += u64::from(dropped);
        let q = &mut self.qps[qp];
        if notes.touched {
            q.taken_pages.settle(dropped);
        }
        let response = seen.filter(|seen| dropped && seen.is_response());
        if let Some(seen) = response {
            let limits = q.limits();
            q.watch.response_missed(self.now, &q.flow, limits, seen);
        } else if notes.empty || dropped {
            let (peer, timer) = (q.peer, q.setup.min_rnr_timer);
            self.qps[peer].watch.answers.not_ready(timer);
        }
        Ok(())
    }
}
