// SPDX-License-Identifier: GPL-2.0

//! The end of a run: what happens when all is done, and what the judges see of it.

use crate::api::*;
use crate::check::Violation;
use crate::judge::stats::Observation;
use crate::profile::MS;
use crate::run::world::World;

impl World {
    /// Nothing more is scheduled.
    pub fn at_rest(&mut self) -> Result<(), Violation> {
        self.view().check_rest()?;
        self.uc_view().check_rest()
    }

    /// The programs close their QPs, with something still posted.
    pub fn close(&mut self) -> Result<(), Violation> {
        self.closing = true;
        for qp in 0..self.qps.len() {
            let extra = self.rng.below(4) as usize;
            let count = self.qps[qp].recv.slots.len() + extra;
            self.post_receives(qp, count)?;
            if self.rng.one_in(2) {
                // Too late to be sent, or in time to be flushed.
                let post = self.programs().draw_late(qp);
                self.post(qp, post);
            }
            self.kill(qp)?;
            if self.rng.one_in(2) {
                let post = self.programs().draw_late(qp);
                self.post(qp, post);
            }
            self.pump(qp)?;
        }
        self.allow(200 * MS);
        self.uc_close()
    }

    /// Judges the end of the run.
    pub fn at_end(&mut self) -> Result<(), Violation> {
        for qp in 0..self.qps.len() {
            self.settle(qp)?;
        }
        self.uc_at_end()?;
        self.view().check_hosts()?;
        self.judge_datagrams()
    }

    /// Judges the end of a QP's life. What its requests and receives may have written before they
    /// failed is accepted.
    pub fn settle(&mut self, qp: usize) -> Result<(), Violation> {
        let used = Observation::KeysUsed {
            all: self.qps[qp].fast.used,
            ended: self.qps[qp].fast.misused,
        };
        self.count(used);
        self.view().check_settled(qp)?;
        let checked = self.view().check_memory(qp);
        checked.map_err(|found| found.at(format_args!("qp{qp}")))?;
        let q = &self.qps[qp];
        let memory = &mut self.hosts[self.qps[q.peer].host].memory;
        memory.accept(q.flow.inbox_at, q.flow.inbox_len());
        let memory = &mut self.hosts[q.host].memory;
        let failed = |done| done != Some(Status::Success);
        let sinks = q.flow.ops.iter().filter(|op| op.verb.brings_data());
        for op in sinks.filter(|op| failed(op.done)) {
            memory.accept(op.local, op.len as usize);
        }
        for slot in q.recv.slots.iter().filter(|slot| failed(slot.done)) {
            memory.accept(slot.at, slot.cap as usize);
        }
        Ok(())
    }
}
