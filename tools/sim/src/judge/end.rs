// SPDX-License-Identifier: GPL-2.0

//! The judge of the end: everything posted was done exactly once, and the memory of all hosts is as
//! the model says.

use super::view::View;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::model::fault::Fault;
use crate::model::flow::Flow;

impl View<'_> {
    /// Nothing more is scheduled: no request and no receive may be pending.
    pub fn check_rest(&self) -> Result<(), Violation> {
        for (qp, q) in self.qps.iter().enumerate() {
            let (posted, done) = (q.flow.ops.len(), q.flow.completed);
            ensure!(
                posted == done,
                "qp{qp} in {:?}: request {done} of {posted} never completes",
                q.conn.state()
            );
            if q.fate.dead || self.is_hostile() {
                continue;
            }
            ensure!(q.todo == 0, "qp{qp}: {} requests were never posted", q.todo);
            // The peer may have died without an effect on its own requests.
            let flow = &q.flow;
            if self.peer(qp).fate.dead {
                continue;
            }
            let memory = &self.hosts[self.peer(qp).host].memory;
            let got = memory.read(flow.inbox_at, flow.inbox_len());
            let same = flow.final_image_is(got);
            same.map_err(|byte| format!("qp{qp}: byte {byte} of the inbox at the peer"))?;
            let (received, sent) = (flow.received, flow.consuming.len());
            ensure!(received == sent, "qp{qp}: {received} receives of {sent}");
        }
        Ok(())
    }

    /// The end of a QP's life: no request or receive is outstanding, and no timer runs.
    pub fn check_settled(&self, qp: usize) -> Result<(), Violation> {
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
        self.check_established(qp)
    }

    /// The memory that the QP's requests and receives could change is as they left it.
    pub fn check_memory(&self, qp: usize) -> Result<(), Violation> {
        if self.is_hostile() {
            return Ok(());
        }
        let flow = &self.qps[qp].flow;
        let memory = &self.hosts[self.peer(qp).host].memory;
        let got = memory.read(flow.inbox_at, flow.inbox_len());
        let checked = flow.check_inbox(got, 0, flow.succeeded, flow.executable());
        checked.map_err(|byte| format!("byte {byte} of the inbox at the peer is wrong"))?;
        check_counts(flow)?;
        self.check_sinks(qp)?;
        self.check_slots(qp)
    }

    /// READs that did not succeed have stored no bytes but those they asked for.
    fn check_sinks(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let memory = &self.hosts[q.host].memory;
        for (index, op) in q.flow.ops.iter().enumerate() {
            if !op.verb.brings_data() || op.done == Some(Status::Success) {
                continue;
            }
            let len = op.len as usize;
            let now = memory.read(op.local, len);
            let old = memory.accepted(op.local, len);
            // Of a READ that ends beyond its region all chunks but the last are answered, with
            // whatever is there.
            let partly = op.fault == Some(Fault::NotEnabled) && op.chunk_end(0) < op.span;
            // Bytes that did not change are not compared.
            let expected: Vec<u8> = (0..len)
                .map(|i| match op.data.get(i) {
                    _ if partly || now[i] == old[i] => now[i],
                    Some(byte) => *byte,
                    None => !now[i],
                })
                .collect();
            let checked = match op.inbox {
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
        }
        Ok(())
    }

    /// Receives that were flushed or failed hold at most a part of the message sent to them.
    fn check_slots(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let flow = &self.peer(qp).flow;
        let memory = &self.hosts[q.host].memory;
        for (index, slot) in q.recv.slots.iter().enumerate() {
            if slot.done == Some(Status::Success) {
                continue;
            }
            let cap = slot.cap as usize;
            let op = flow.consuming.get(index).map(|op| &flow.ops[*op]);
            let data = op.map_or(&[][..], |op| &op.data);
            let (now, old) = (memory.read(slot.at, cap), memory.accepted(slot.at, cap));
            let wrong = (0..cap).find(|&i| now[i] != old[i] && data.get(i) != Some(&now[i]));
            ensure!(
                wrong.is_none(),
                "byte {wrong:?} of receive {index} is wrong"
            );
        }
        Ok(())
    }

    /// No receive of a shared queue is lost, and no byte was written without permission.
    pub fn check_hosts(&self) -> Result<(), Violation> {
        for (index, host) in self.hosts.iter().enumerate() {
            let kept = host.srq.as_ref().filter(|q| q.taken != q.completed);
            ensure!(kept.is_none(), "host{index}: a receive was lost: {kept:?}");
            let stray = host.memory.unaccepted(0, host.memory.len());
            ensure!(
                stray.is_none(),
                "host{index}: byte {stray:?} written without leave"
            );
        }
        Ok(())
    }
}

/// The number of receives is that which the executed requests consumed.
fn check_counts(flow: &Flow) -> Result<(), Violation> {
    let taken = |before| flow.consuming.partition_point(|op| *op < before);
    let (low, high) = (taken(flow.succeeded), taken(flow.executable()));
    let got = flow.received;
    ensure!(
        (low..=high).contains(&got),
        "{got} receives, expected {low} to {high}"
    );
    Ok(())
}
