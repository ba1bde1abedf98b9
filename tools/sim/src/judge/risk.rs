// SPDX-License-Identifier: GPL-2.0

//! The failures that a QP may meet, as its peer's requests have faults, or as memory that they use
//! was deregistered.

use super::view::View;
use crate::api::Status;
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::Verb;

impl View<'_> {
    /// The faults for which the responder of this QP may have refused a request and gone to error,
    /// if any.
    pub fn remote_dooms(&self, qp: usize) -> Vec<Fault> {
        let (peer, watch) = (self.peer(qp), &self.watches[self.qps[qp].peer]);
        let doomed = peer.flow.doomed.map(|index| &peer.flow.ops[index]);
        let begun = doomed.filter(|op| watch.has_begun(op));
        let fault = begun.and_then(|op| op.fault);
        let exceeds_resources = peer.flow.exceeds_resources.then_some(Fault::TooMany);
        let mut all: Vec<Fault> = fault.into_iter().chain(exceeds_resources).collect();
        if self.plan.deregister != 0 {
            let ops = peer.flow.ops.iter();
            let begun = ops.filter(|op| watch.has_begun(op));
            all.extend(begun.flat_map(|op| op.risk.faults()));
        }
        all.retain(|fault| fault.is_remote());
        all
    }

    /// Whether the responder may ignore this READ, because its region is gone.
    pub fn may_be_ignored(&self, qp: usize, index: usize) -> bool {
        let op = &self.qps[qp].flow.ops[index];
        op.risk.remote && op.verb == Verb::Read
    }
}

/// Whether the receive that a request meets may complete with this error, as the request risks it.
/// A WRITE with immediate data may have lost its region, and the memory of its receive as well.
pub fn may_fail_receive(op: &Op, status: Status) -> bool {
    match status {
        Status::LocProt => op.risk.receive,
        Status::LocAccess => op.risk.remote && op.verb == Verb::WriteImm,
        _ => false,
    }
}
