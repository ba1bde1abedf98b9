// SPDX-License-Identifier: GPL-2.0

//! Missing pages (on-demand paging): accesses of a device to memory that find a page missing.

use crate::api::Payload;
use crate::profile::{Plan, MS};
use crate::rng::{Ppm, Rng, Stream};

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
    pub fn new(plan: &Plan, rng: &Rng, stream: Stream) -> Paging {
        Paging {
            rng: rng.clone().fork(stream),
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
    pub fn of_responses(plan: &Plan, rng: &Rng, stream: Stream) -> Paging {
        Paging {
            long: plan.absent_long.min(MS),
            ..Paging::new(plan, rng, stream)
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
    pub fn is_payload_missing(&mut self, now: u64, payload: &Payload) -> bool {
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
