// SPDX-License-Identifier: GPL-2.0

//! The judges of the end: everything posted was done exactly once, and the memory of all hosts is
//! as the model says.

use crate::api::*;
use crate::check::ensure;
use crate::model::flow::Flow;
use crate::profile::{Profile, MS};
use crate::run::world::World;

impl World {
    /// Nothing more is scheduled: no request and no receive may be pending.
    pub fn at_rest(&mut self) -> Result<(), String> {
        for (qp, q) in self.qps.iter().enumerate() {
            let (posted, done) = (q.flow.ops.len(), q.flow.completed);
            ensure!(
                posted == done,
                "qp{qp} in {:?}: request {done} of {posted} never completes",
                q.conn.state()
            );
            if q.fate.dead || self.plan.profile == Profile::Hostile {
                continue;
            }
            ensure!(q.todo == 0, "qp{qp}: {} requests were never posted", q.todo);
            // The peer may have died without an effect on its own requests.
            let flow = &q.flow;
            let healthy = !self.qps[q.peer].fate.dead;
            let all = flow.received == flow.consuming.len();
            if healthy {
                let memory = &self.hosts[self.qps[q.peer].host].memory;
                let got = memory.read(flow.inbox_at, flow.inbox_len());
                let same = flow.final_image_is(got);
                same.map_err(|byte| format!("qp{qp}: byte {byte} of the inbox at the peer"))?;
            }
            ensure!(
                !healthy || all,
                "qp{qp}: {} receives of {}",
                flow.received,
                flow.consuming.len()
            );
        }
        self.uc_at_rest()
    }

    /// The programs close their QPs, with something still posted.
    pub fn close(&mut self) -> Result<(), String> {
        self.closing = true;
        for qp in 0..self.qps.len() {
            let extra = self.rng.below(4) as usize;
            let count = self.qps[qp].recv.slots.len() + extra;
            self.post_receives(qp, count)?;
            if self.rng.one_in(2) {
                // Too late to be sent, or in time to be flushed.
                self.post_late(qp);
            }
            self.kill(qp)?;
            if self.rng.one_in(2) {
                self.post_late(qp);
            }
            self.pump(qp)?;
        }
        self.allow(200 * MS);
        self.uc_close()
    }

    /// Judges the end of the run.
    pub fn at_end(&mut self) -> Result<(), String> {
        for qp in 0..self.qps.len() {
            self.settle(qp)?;
        }
        self.uc_at_end()?;
        for (index, host) in self.hosts.iter().enumerate() {
            let kept = host.srq.as_ref().filter(|q| q.taken != q.completed);
            ensure!(kept.is_none(), "host{index}: a receive was lost: {kept:?}");
            let stray = host.memory.unaccepted(0, host.memory.len());
            ensure!(
                stray.is_none(),
                "host{index}: byte {stray:?} written without leave"
            );
        }
        self.judge_datagrams()
    }

    /// Judges the end of a QP's life: no request or receive is outstanding.
    pub fn settle(&mut self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let (posted, done) = (q.flow.ops.len(), q.flow.completed);
        ensure!(
            posted == done,
            "qp{qp}: {done} of {posted} requests have completed"
        );
        // Receives that were not taken stay in a shared receive queue.
        let taken = if self.plan.srq {
            q.recv.next
        } else {
            usize::MAX
        };
        let mut slots = q.recv.slots.iter().take(taken);
        let open = slots.position(|slot| slot.done.is_none());
        ensure!(open.is_none(), "qp{qp}: receive {open:?} never completed");
        let timeout = q.conn.poll_timeout();
        ensure!(
            timeout.is_none(),
            "qp{qp}: in error, and waits for {timeout:?}"
        );
        self.view().check_established(qp)?;
        self.settle_inbox(qp)
            .map_err(|text| format!("qp{qp}: {text}"))?;
        self.settle_sinks(qp)
            .map_err(|text| format!("qp{qp}: {text}"))?;
        self.settle_receives(qp)
            .map_err(|text| format!("qp{qp}: {text}"))
    }

    /// The inbox at the peer is as the requests left it.
    fn settle_inbox(&mut self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let flow = &q.flow;
        let memory = &mut self.hosts[self.qps[q.peer].host].memory;
        let got = memory.read(flow.inbox_at, flow.inbox_len());
        if self.plan.profile != Profile::Hostile {
            let checked = flow.check_inbox(got, 0, flow.succeeded, flow.executable());
            checked.map_err(|byte| format!("byte {byte} of the inbox at the peer is wrong"))?;
            check_counts(flow)?;
        }
        memory.accept(flow.inbox_at, flow.inbox_len());
        Ok(())
    }

    /// READs that did not succeed have stored no bytes but those they asked for.
    fn settle_sinks(&mut self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let memory = &mut self.hosts[q.host].memory;
        for (index, op) in q.flow.ops.iter().enumerate() {
            if !op.verb.brings_data() || op.done == Some(Status::Success) {
                continue;
            }
            let len = op.len as usize;
            let now = memory.read(op.local, len);
            let old = memory.accepted(op.local, len);
            // Bytes that did not change are not compared.
            let expected: Vec<u8> = (0..len)
                .map(|i| if now[i] == old[i] { now[i] } else { op.data[i] })
                .collect();
            let checked = match op.inbox {
                _ if self.plan.profile == Profile::Hostile => Ok(()),
                Some(at) => {
                    let later = q.flow.unfenced(index);
                    q.flow.check_against(now, &expected, at, index + 1, later)
                }
                None => now
                    .iter()
                    .zip(&expected)
                    .position(|(a, b)| a != b)
                    .map_or(Ok(()), Err),
            };
            checked.map_err(|byte| format!("byte {byte} of the answer to {index} is wrong"))?;
            memory.accept(op.local, len);
        }
        Ok(())
    }

    /// Receives that were flushed or failed hold at most a part of the message sent to them.
    fn settle_receives(&mut self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let flow = &self.qps[q.peer].flow;
        let memory = &mut self.hosts[q.host].memory;
        for (index, slot) in q.recv.slots.iter().enumerate() {
            if slot.done == Some(Status::Success) {
                continue;
            }
            let cap = slot.cap as usize;
            let op = flow.consuming.get(index).map(|op| &flow.ops[*op]);
            let data = op.map_or(&[][..], |op| &op.data);
            let (now, old) = (memory.read(slot.at, cap), memory.accepted(slot.at, cap));
            let wrong = (0..cap).find(|&i| now[i] != old[i] && data.get(i) != Some(&now[i]));
            let hostile = self.plan.profile == Profile::Hostile;
            ensure!(
                wrong.is_none() || hostile,
                "byte {wrong:?} of receive {index} is wrong"
            );
            memory.accept(slot.at, cap);
        }
        Ok(())
    }
}

/// The number of receives is that which the executed requests consumed.
fn check_counts(flow: &Flow) -> Result<(), String> {
    let taken = |before| flow.consuming.partition_point(|op| *op < before);
    let (low, high) = (taken(flow.succeeded), taken(flow.executable()));
    let got = flow.received;
    ensure!(
        (low..=high).contains(&got),
        "{got} receives, expected {low} to {high}"
    );
    Ok(())
}
