// SPDX-License-Identifier: GPL-2.0

//! The judge of send completions: in order, once, and with the status that each request deserves.

use super::view::View;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::Verb;

/// Timeout exponents below this may be shorter than the way to the peer and back.
const HASTY: u8 = 8;

impl View<'_> {
    /// A completion is that of the oldest request without one, and reported if it has to be. Gives
    /// the number of the request.
    pub fn check_order(&self, qp: usize, c: &SendCompletion) -> Result<usize, Violation> {
        let flow = &self.qps[qp].flow;
        let index = flow.completed;
        ensure!(
            c.n as usize == index,
            "qp{qp}: {c:?}, expected request {index}"
        );
        let op = flow.ops.get(index).ok_or("completion of nothing posted")?;
        let signaled = op.signaled || c.status != Status::Success;
        ensure!(c.signaled == signaled, "qp{qp}: {c:?} of {op:?}");
        Ok(index)
    }

    /// A request that succeeds was carried out, and its bytes are where they belong.
    pub fn check_success(
        &self,
        qp: usize,
        index: usize,
        c: &SendCompletion,
    ) -> Result<(), Violation> {
        let (q, watch) = (&self.qps[qp], &self.watches[qp]);
        let op = &q.flow.ops[index];
        let earlier = q.fate.first_error;
        ensure!(earlier.is_none(), "success after {earlier:?}");
        if self.is_hostile() {
            return Ok(());
        }
        ensure!(op.fault.is_none(), "success in spite of {:?}", op.fault);
        ensure!(c.byte_len == op.len, "{} bytes, not {}", c.byte_len, op.len);
        if op.verb.is_local() {
            return self.check_local_done(qp, index);
        }
        let executed = watch.accepted >= op.first + op.span;
        ensure!(executed, "the responder has not executed it");
        if op.verb.is_read_like() {
            ensure!(watch.is_answered(op), "no answer has reached the requester");
        }
        if op.verb.brings_data() {
            let finished = q.send.slots[index].finished || op.verb != Verb::Read;
            ensure!(finished, "a READ that was never whole");
            if let Some(rkey) = op.keys.lkey.filter(|_| op.keys.ends) {
                self.check_key_gone(qp, rkey)?;
            }
            return self.check_data(qp, index);
        }
        let Some(at) = op.inbox else {
            return Ok(());
        };
        // A WRITE or ATOMIC WRITE: its bytes are there, or those of a later request.
        let memory = &self.hosts[self.peer(qp).host].memory;
        let got = memory.read(q.flow.inbox_at + at, op.len as usize);
        let check = q.flow.check_inbox(got, at, index + 1, q.flow.ops.len());
        check.map_err(|byte| format!("byte {byte} is not in the peer's memory").into())
    }

    /// A READ or an atomic has brought the right data.
    fn check_data(&self, qp: usize, index: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let op = &q.flow.ops[index];
        let memory = &self.hosts[q.host].memory;
        let got = memory.read(op.local, op.len as usize);
        let check = match op.inbox {
            Some(at) if op.verb == Verb::Read => {
                let later = q.flow.unfenced(index);
                q.flow.check_against(got, &op.data, at, index + 1, later)
            }
            _ => got
                .iter()
                .zip(&op.data)
                .position(|(a, b)| a != b)
                .map_or(Ok(()), Err),
        };
        check.map_err(|byte| format!("byte {byte} of the answer is wrong").into())
    }

    /// The first request that fails has the status that it deserves, and those after it are flushed
    /// (IBTA 10.3.1, 11.6.2).
    pub fn check_failure(&self, qp: usize, index: usize, status: Status) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let op = &q.flow.ops[index];
        if let Some(earlier) = q.fate.first_error {
            let flush = status == Status::WrFlush;
            ensure!(
                "IBTA 10.3.1",
                flush,
                "{status:?} after {earlier:?}, which should have flushed it"
            );
            return Ok(());
        }
        if self.is_hostile() {
            return Ok(());
        }
        if let Some(rkey) = op.keys.lkey.filter(|_| op.keys.ends) {
            let regions = &self.hosts[q.host].regions;
            ensure!(!regions.is_over(rkey), "its key has ended");
        }
        match status {
            Status::WrFlush => {
                let excuse = q.fate.killed || !self.remote_dooms(qp).is_empty();
                ensure!("IBTA 11.6.2", excuse, "flushed without an error before it");
            }
            Status::RetryExc => self.check_retries(qp, index)?,
            Status::RnrRetryExc => self.check_rnr_retries(qp, op)?,
            status => {
                let exceeds_resources = q.flow.exceeds_resources && op.verb.is_read_like();
                let fits = |fault: Fault| fault.statuses().contains(&status);
                let fitting =
                    op.fault.is_some_and(fits) || (exceeds_resources && fits(Fault::TooMany));
                let risked = op.risk.faults().any(fits);
                ensure!(
                    "IBTA 11.6.2",
                    fitting || risked,
                    "expected {:?}, {:?}",
                    op.fault,
                    op.risk
                );
            }
        }
        Ok(())
    }

    /// Retries were used up before the request failed for that (IBTA 9.9.2.1).
    fn check_retries(&self, qp: usize, index: usize) -> Result<(), Violation> {
        let (q, watch) = (&self.qps[qp], &self.watches[qp]);
        let sent = watch.transmissions(&q.flow.ops[index]);
        let retries = q.setup.retry_cnt;
        let enough = sent > retries.into();
        ensure!(
            "IBTA 9.9.2.1",
            enough,
            "gave up after {sent} transmissions, {retries} retries allowed"
        );
        if self.may_be_ignored(qp, index) {
            return Ok(());
        }
        self.check_silent_peer(qp)?;
        if q.conn.is_foreign() {
            return Ok(());
        }
        watch.check_patience(self.now, q.setup.timeout, retries)
    }

    /// So were those after RNR NAKs (IBTA 9.7.5.2.8).
    fn check_rnr_retries(&self, qp: usize, op: &Op) -> Result<(), Violation> {
        let naks = self.watches[qp].rnr_naks(op);
        let rnr = self.qps[qp].setup.rnr_retry;
        let enough = rnr < 7 && naks > rnr.into();
        ensure!(
            "IBTA 9.7.5.2.8",
            enough,
            "gave up after {naks} RNR NAKs, {rnr} retries allowed"
        );
        Ok(())
    }

    /// Retries can only run out where packets are harmed, or the peer is not there.
    fn check_silent_peer(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        // A device that cannot send is as late as one that is not there yet.
        if self.peer(qp).fate.dead || self.plan.staggered || self.plan.tx_fail != 0 {
            return Ok(());
        }
        ensure!(
            self.plan.impairment.is_ill() || self.plan.absent != 0 && q.conn.is_foreign(),
            "no answer from a healthy peer"
        );
        // The resources of such READs are overwritten: these cannot be answered again.
        if q.flow.exceeds_resources {
            return Ok(());
        }
        // Each attempt failed for a reason of its own (that of the first may have come before the
        // last answer that was taken), unless the timer is too short to wait for.
        let (harm, retries) = (self.watches[qp].harm(), q.setup.retry_cnt);
        let hasty = q.setup.timeout < HASTY;
        ensure!(
            hasty || harm >= retries.into(),
            "gave up after {harm} packets were harmed, {retries} retries allowed"
        );
        Ok(())
    }
}
