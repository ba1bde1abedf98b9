// SPDX-License-Identifier: GPL-2.0

//! Programs use dead connections again.

use super::Programs;
use crate::profile::draw_psn;

/// Most reuses of a run.
const MOST: u64 = 4;

/// What a QP begins with when it is used again.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub start_psn: u32,
    /// Requests to be posted.
    pub todo: u64,
}

impl Programs<'_> {
    /// Whether a connection that is dead at both ends is used again, as `before` others were.
    pub fn draw_reuse(&mut self, before: u64) -> bool {
        before < MOST && self.rng.chance(self.plan.qp_reuse)
    }

    /// What a QP begins with.
    pub fn draw_life(&mut self) -> Life {
        Life {
            start_psn: draw_psn(self.rng),
            todo: self.rng.below(30),
        }
    }
}
