// SPDX-License-Identifier: GPL-2.0

//! Programs deregister memory while requests use it, at either end. Such a request may succeed, or
//! fail: with a local protection error where its own memory is gone, with a remote access error
//! where the peer's is (IBTA 9.9.2, 11.6.2), and with a remote operational error where the peer's
//! receive has lost its memory. Later requests are flushed.

use crate::api::*;
use crate::check::Violation;
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::fault::Risk;
use crate::model::op::Op;
use crate::profile::MS;
use crate::program::deregister::Deregistration;
use crate::run::world::{Event, World};
use oxe_proto::transport::time;

impl World {
    /// The program at one of the ends deregisters memory that the requests of the QP use.
    pub fn deregister(&mut self, qp: usize) -> Result<(), Violation> {
        if self.qps[qp].fate.dead {
            return Ok(());
        }
        self.count(Observation::Deregistered);
        match self.programs().draw_deregistration(qp) {
            Deregistration::Requests => self.deregister_local(qp),
            Deregistration::Receives => self.deregister_receives(qp),
            Deregistration::Region(region) => self.deregister_region(qp, region),
        }
        self.allow_retries(qp);
        if let Some(gap) = self.programs().draw_next_deregistration() {
            self.allow(gap);
            self.after(gap, Event::Deregister { qp });
        }
        Ok(())
    }

    /// Extends the deadline for a READ whose response was lost before its region was deregistered.
    /// The responder neither answers it again nor refuses it, as the request may be a late copy.
    /// Its requester gives up.
    fn allow_retries(&mut self, qp: usize) {
        let timeout = time::ack_timeout(self.qps[qp].setup.timeout).unwrap_or(0);
        self.allow(40 * (timeout + self.plan.timer_slack) + 20 * MS);
    }

    /// Deregisters the memory of all requests in the send queue.
    fn deregister_local(&mut self, qp: usize) {
        log!(self, "qp{qp} loses the memory of its requests");
        let q = &mut self.qps[qp];
        let done = q.flow.completed;
        let open = q.flow.ops.iter_mut().zip(&mut q.send.slots).skip(done);
        for (op, slot) in open.filter(|(op, _)| !op.verb.is_local()) {
            slot.unusable = true;
            op.risk.local = true;
        }
    }

    /// Deregisters the memory of all receives that the QP's requests will meet.
    fn deregister_receives(&mut self, qp: usize) {
        let peer = self.qps[qp].peer;
        log!(self, "qp{peer} loses the memory of its receives");
        let slots = &mut self.qps[peer].recv.slots;
        let open: Vec<usize> = (0..slots.len())
            .filter(|n| slots[*n].done.is_none())
            .collect();
        for n in &open {
            slots[*n].garbage = true;
        }
        let flow = &mut self.qps[qp].flow;
        for n in open {
            if let Some(index) = flow.consuming.get(n) {
                flow.ops[*index].risk.receive = true;
            }
        }
    }

    /// Deregisters a region of the host of the QP's peer. The requests of other QPs may use it,
    /// too.
    fn deregister_region(&mut self, qp: usize, region: usize) {
        let host = self.qps[self.qps[qp].peer].host;
        let region = &mut self.hosts[host].regions.0[region];
        region.valid = false;
        let rkey = region.rkey;
        log!(self, "host{host} deregisters {rkey:#x}");
        for other in 0..self.qps.len() {
            let theirs = self.qps[self.qps[other].peer].host == host;
            let flow = &mut self.qps[other].flow;
            // The packets of a request that was flushed may still be on their way.
            let open = |op: &&mut Op| op.done != Some(Status::Success);
            let ops = flow.ops.iter_mut().filter(open);
            let mut hit = false;
            for op in ops.filter(|op| theirs && op.names_region() && op.rkey == rkey) {
                op.risk.remote = true;
                hit = true;
            }
            if hit {
                self.allow_retries(other);
            }
        }
    }

    /// The risks of a request that is posted now.
    pub fn risk(&self, qp: usize, op: &Op) -> Risk {
        let host = &self.hosts[self.qps[self.qps[qp].peer].host];
        let gone = |rkey| host.regions.0.iter().any(|r| r.rkey == rkey && !r.valid);
        Risk {
            remote: self.plan.deregister != 0 && op.names_region() && gone(op.rkey),
            ..Risk::default()
        }
    }
}
