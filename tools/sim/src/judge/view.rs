// SPDX-License-Identifier: GPL-2.0

//! What the judges see: all of a run, by shared reference. They cannot change what they judge.

use super::requester_wire::Watch;
use crate::host::machine::Host;
use crate::host::qp::Qp;
use crate::profile::{Plan, Profile};

/// A run at a moment.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub now: u64,
    pub plan: &'a Plan,
    pub hosts: &'a [Host],
    pub qps: &'a [Qp],
    /// The records of the QPs' requests on the wire.
    pub watches: &'a [Watch],
}

impl<'a> View<'a> {
    /// Whether packets are forged: then much is right that otherwise is wrong.
    pub fn is_hostile(&self) -> bool {
        self.plan.profile == Profile::Hostile
    }

    /// The QP at the other end.
    pub fn peer(&self, qp: usize) -> &'a Qp {
        &self.qps[self.qps[qp].peer]
    }
}
