// SPDX-License-Identifier: GPL-2.0

//! The judges of single events: send and receive completions, verdicts, events of a QP.

use crate::api::*;
use crate::check::ensure;
use crate::log::tell;
use crate::model::fault::Fault;
use crate::model::outcome::Pause;
use crate::model::verb::Verb;
use crate::profile::{Profile, US};
use crate::run::world::{Event, World};

/// Timeout exponents below this may be shorter than the way to the peer and back.
const HASTY: u8 = 8;

impl World {
    fn hostile(&self) -> bool {
        self.plan.profile == Profile::Hostile
    }

    /// A send completion: in order, once, with the status it deserves.
    pub fn judge_completion(&mut self, qp: usize, c: SendCompletion) -> Result<(), String> {
        tell!(self, "qp{qp} completes {c:?}");
        let q = &mut self.qps[qp];
        let index = q.flow.completed;
        ensure!(
            c.n as usize == index,
            "qp{qp}: {c:?}, expected request {index}"
        );
        let op = q
            .flow
            .ops
            .get_mut(index)
            .ok_or("completion of nothing posted")?;
        op.done = Some(c.status);
        q.flow.completed += 1;
        let signaled = op.signaled || c.status != Status::Success;
        ensure!(c.signaled == signaled, "qp{qp}: {c:?} of {op:?}");
        let result = match c.status {
            Status::Success => self.judge_success(qp, index, c),
            status => self.judge_failure(qp, index, status),
        };
        result.map_err(|text| {
            let op = &self.qps[qp].flow.ops[index];
            format!(
                "qp{qp}: request {index} {:?}+{}: {c:?}: {text}",
                op.verb, op.len
            )
        })
    }

    fn judge_success(&mut self, qp: usize, index: usize, c: SendCompletion) -> Result<(), String> {
        self.stats.succeeded += 1;
        let q = &mut self.qps[qp];
        let op = &q.flow.ops[index];
        let earlier = q.fate.first_error;
        ensure!(earlier.is_none(), "success after {earlier:?}");
        q.flow.succeeded += 1;
        if self.plan.profile == Profile::Hostile {
            if op.verb.brings_data() {
                let (at, len) = (op.local, op.len as usize);
                self.hosts[q.host].memory.accept(at, len);
            }
            return Ok(());
        }
        ensure!(op.fault.is_none(), "success in spite of {:?}", op.fault);
        ensure!(c.byte_len == op.len, "{} bytes, not {}", c.byte_len, op.len);
        if op.verb.is_local() {
            return self.judge_local(qp, index);
        }
        let executed = self.watches[qp].accepted >= op.first + op.span;
        ensure!(executed, "the responder has not executed it");
        if op.verb.is_read_like() {
            ensure!(
                self.watches[qp].is_answered(op),
                "no answer has reached the requester"
            );
        }
        if op.verb.brings_data() {
            let finished = q.send.slots[index].finished || op.verb != Verb::Read;
            ensure!(finished, "a READ that was never whole");
            if let Some(rkey) = op.keys.lkey.filter(|_| op.keys.ends) {
                self.judge_key_gone(qp, rkey)?;
                self.stats.ended[1] += 1;
            }
            return self.judge_answer(qp, index);
        }
        let Some(at) = op.inbox else {
            return Ok(());
        };
        // A WRITE or ATOMIC WRITE: its bytes are there, or those of a later request.
        let q = &self.qps[qp];
        let op = &q.flow.ops[index];
        let memory = &self.hosts[self.qps[q.peer].host].memory;
        let got = memory.read(q.flow.inbox_at + at, op.len as usize);
        let check = q.flow.check_inbox(got, at, index + 1, q.flow.ops.len());
        check.map_err(|byte| format!("byte {byte} is not in the peer's memory"))
    }

    /// A READ or an atomic has brought the right data.
    fn judge_answer(&mut self, qp: usize, index: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let op = &q.flow.ops[index];
        let memory = &mut self.hosts[q.host].memory;
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
        check.map_err(|byte| format!("byte {byte} of the answer is wrong"))?;
        memory.accept(op.local, op.len as usize);
        Ok(())
    }

    /// The first request that fails has the status that it deserves, and those after it are flushed
    /// (IBTA 10.3.1, 11.6.2). Retries were used up (IBTA 9.9.2.1), or those after RNR NAKs
    /// (IBTA 9.7.5.2.8), before it failed for that.
    fn judge_failure(&mut self, qp: usize, index: usize, status: Status) -> Result<(), String> {
        let q = &mut self.qps[qp];
        let op = &q.flow.ops[index];
        match status {
            Status::WrFlush => self.stats.flushed += 1,
            Status::RetryExc => self.stats.retry_exceeded += 1,
            Status::RnrRetryExc => self.stats.rnr_exceeded += 1,
            _ => self.stats.failed += 1,
        }
        if let Some(earlier) = q.fate.first_error {
            let flush = status == Status::WrFlush;
            ensure!(
                flush,
                "{status:?} after {earlier:?}, which should have flushed it"
            );
            return Ok(());
        }
        q.fate.first_error = Some(status);
        let (sent, naks) = (
            self.watches[qp].transmissions(op),
            self.watches[qp].rnr_naks(op),
        );
        let (retries, rnr) = (q.setup.retry_cnt, q.setup.rnr_retry);
        if self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        if let Some(rkey) = op.keys.lkey.filter(|_| op.keys.ends) {
            let regions = &self.hosts[q.host].regions;
            ensure!(!regions.is_over(rkey), "its key has ended");
        }
        match status {
            Status::WrFlush => {
                let excuse = self.qps[qp].fate.killed || !self.remote_dooms(qp).is_empty();
                ensure!(excuse, "flushed without an error before it");
            }
            Status::RetryExc => {
                let enough = sent > retries.into();
                ensure!(
                    enough,
                    "gave up after {sent} transmissions, {retries} retries allowed"
                );
                if !self.may_be_ignored(qp, index) {
                    self.ensure_silence(qp)?;
                    let q = &self.qps[qp];
                    if !q.conn.is_foreign() {
                        self.watches[qp].check_patience(self.now, q.setup.timeout, retries)?;
                    }
                }
            }
            Status::RnrRetryExc => {
                let enough = rnr < 7 && naks > rnr.into();
                ensure!(
                    enough,
                    "gave up after {naks} RNR NAKs, {rnr} retries allowed"
                );
            }
            status => {
                let greedy = q.flow.greedy && op.verb.is_read_like();
                let fits = |fault: Fault| fault.statuses().contains(&status);
                let fitting = op.fault.is_some_and(fits) || (greedy && fits(Fault::TooMany));
                let risked = op.risk.faults().any(fits);
                ensure!(fitting || risked, "expected {:?}, {:?}", op.fault, op.risk);
            }
        }
        Ok(())
    }

    /// Retries can only run out where packets are harmed, or the peer is not there.
    fn ensure_silence(&self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let peer = &self.qps[q.peer];
        // A device that cannot send is as late as one that is not there yet.
        if peer.fate.dead || self.plan.staggered || self.plan.tx_fail != 0 {
            return Ok(());
        }
        ensure!(
            self.plan.impairment.is_ill() || self.plan.absent != 0 && q.conn.is_foreign(),
            "no answer from a healthy peer"
        );
        // The resources of a greedy peer's READs are overwritten: these cannot be answered again.
        if q.flow.greedy {
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

    /// A receive completion: in order, once, and it is what was sent.
    pub fn judge_receive(
        &mut self,
        qp: usize,
        slot: usize,
        c: RecvCompletion,
    ) -> Result<(), String> {
        tell!(self, "qp{qp} receives {slot} {c:?}");
        let done = &mut self.qps[qp].recv.slots[slot].done;
        ensure!(
            done.is_none(),
            "qp{qp}: receive {slot}: {c:?} after {done:?}"
        );
        *done = Some(c.status);
        let q = &self.qps[qp];
        if let Some(srq) = &mut self.hosts[q.host].srq {
            ensure!(
                slot < q.recv.next,
                "qp{qp}: receive {slot}: {c:?}, and it was not taken"
            );
            srq.completed += 1;
        }
        let result = if self.hostile() {
            self.accept_receive(qp, slot);
            Ok(())
        } else if c.status == Status::Success {
            self.judge_received(qp, slot, c)
        } else {
            self.judge_receive_error(qp, slot, c.status)
        };
        result.map_err(|text| format!("qp{qp}: receive {slot}: {c:?}: {text}"))
    }

    fn accept_receive(&mut self, qp: usize, slot: usize) {
        let q = &self.qps[qp];
        let slot = &q.recv.slots[slot];
        self.hosts[q.host].memory.accept(slot.at, slot.cap as usize);
    }

    fn judge_received(&mut self, qp: usize, slot: usize, c: RecvCompletion) -> Result<(), String> {
        let q = &self.qps[qp];
        let dead = q.fate.dead;
        ensure!(!dead, "success on a QP in error");
        let flow = &self.qps[q.peer].flow;
        ensure!(slot == flow.received, "expected receive {}", flow.received);
        let index = *flow.consuming.get(slot).ok_or("nobody sent that")?;
        let op = &flow.ops[index];
        let recv = &q.recv.slots[slot];
        ensure!(op.fault.is_none(), "success in spite of {:?}", op.fault);
        ensure!(
            c.byte_len == op.len,
            "{} bytes, sent were {}",
            c.byte_len,
            op.len
        );
        let imm = matches!(op.verb, Verb::SendImm | Verb::WriteImm).then_some(op.imm);
        ensure!(c.imm == imm, "immediate data, sent was {imm:?}");
        let inv = (op.verb == Verb::SendInv).then_some(op.inv);
        ensure!(c.inv_rkey == inv, "invalidated key, sent was {inv:?}");
        ensure!(c.solicited == op.solicited, "solicited");
        let write = op.verb == Verb::WriteImm;
        ensure!(c.write_imm == write, "write, sent was {:?}", op.verb);
        let host = &mut self.hosts[q.host];
        if let Some(key) = inv {
            let valid = host.regions.0.iter().any(|r| r.rkey == key && r.valid);
            ensure!(!valid, "the key is still valid");
        }
        let mut used = 0;
        if write {
            let at = op.inbox.unwrap_or(0);
            let got = host.memory.read(flow.inbox_at + at, op.len as usize);
            let check = flow.check_inbox(got, at, index + 1, flow.ops.len());
            check.map_err(|byte| format!("byte {byte} of the WRITE is missing"))?;
        } else {
            used = op.len as usize;
            ensure!(host.memory.read(recv.at, used) == op.data, "wrong data");
        }
        let rest = host
            .memory
            .unaccepted(recv.at + used, recv.cap as usize - used);
        ensure!(rest.is_none(), "byte {rest:?} after the data was touched");
        host.memory.accept(recv.at, recv.cap as usize);
        let peer = q.peer;
        self.qps[peer].flow.received += 1;
        self.heed(qp, index);
        if self.plan.dialogue {
            let pause = self.rng.below(30 * US);
            self.after(pause, Event::Respond { qp });
        }
        Ok(())
    }

    fn judge_receive_error(
        &mut self,
        qp: usize,
        slot: usize,
        status: Status,
    ) -> Result<(), String> {
        let q = &self.qps[qp];
        let flow = &self.qps[q.peer].flow;
        if status == Status::WrFlush {
            ensure!(q.fate.dead, "flushed on a healthy QP");
            return Ok(());
        }
        let earlier = q.fate.receive_error;
        ensure!(
            earlier.is_none(),
            "a second receive error after {earlier:?}"
        );
        let index = *flow.consuming.get(slot).ok_or("nobody sent that")?;
        if self.receive_risk(&flow.ops[index]) == Some(status) {
            self.qps[qp].fate.receive_error = Some(status);
            return Ok(());
        }
        let op = &flow.ops[index];
        let expected = match op.fault {
            // It takes the receive if its only packet is the one that is refused.
            Some(Fault::NotEnabled | Fault::RemoteDefect) if op.verb == Verb::WriteImm => {
                Status::LocAccess
            }
            Some(Fault::TooLong) => Status::LocLen,
            Some(Fault::BrokenReceive) => Status::LocProt,
            // A SEND with invalidate of a key that is none.
            Some(Fault::NotEnabled) => Status::RemInvReq,
            other => return Err(format!("{other:?} gives no such error")),
        };
        ensure!(status == expected, "expected {expected:?}");
        self.qps[qp].fate.receive_error = Some(status);
        Ok(())
    }

    /// The verdict on a packet.
    pub fn judge_verdict(
        &mut self,
        qp: usize,
        verdict: Verdict,
        empty: bool,
    ) -> Result<(), String> {
        let Verdict::Dropped(cause) = verdict else {
            return Ok(());
        };
        self.stats.dropped += 1;
        if cause == DropReason::Refused {
            self.stats.refused += 1;
        }
        if self.hostile() {
            return Ok(());
        }
        match cause {
            DropReason::Unplaceable => {
                let q = &self.qps[qp];
                let faulty = q.flow.doomed.map(|index| q.flow.ops[index].fault);
                let lost = q.flow.ops.iter().any(|op| op.risk.local);
                let mine = [Some(Fault::Unplaceable), Some(Fault::Unfinishable)];
                let mine = lost || faulty.is_some_and(|fault| mine.contains(&fault));
                ensure!(mine, "qp{qp}: memory did not take an honest response");
            }
            DropReason::BadResponse
            | DropReason::Cnp
            | DropReason::Service
            | DropReason::QKey
            | DropReason::TooLong
            | DropReason::PKey => {
                return Err(format!("qp{qp}: an honest packet is dropped for {cause:?}"));
            }
            DropReason::Refused => {
                let doomed = !self.remote_dooms(qp).is_empty();
                ensure!(doomed, "qp{qp}: an honest request is refused");
            }
            _ => {}
        }
        // On a network without faults no packet may be dropped.
        let dead = self.qps[qp].fate.dead || self.qps[self.qps[qp].peer].fate.dead;
        let undisturbed = self.plan.profile == Profile::Clean && !self.plan.late_receives;
        ensure!(
            dead || empty || !undisturbed,
            "qp{qp}: dropped for {cause:?} on a clean network"
        );
        Ok(())
    }

    /// Events of a QP have a reason (IBTA 11.6.3). The send queue is drained when all requests that
    /// had begun are complete (IBTA 11.6.3.2).
    pub fn judge_events(&mut self, qp: usize, events: Events) -> Result<(), String> {
        let dooms = self.remote_dooms(qp);
        let q_peer = self.qps[qp].peer;
        let q = &mut self.qps[qp];
        if events.contains(Events::COMM_EST) {
            ensure!(!q.fate.established, "qp{qp}: established twice");
            q.fate.established = true;
        }
        if events.contains(Events::SQ_DRAINED) {
            let Pause::Draining(begun) = q.pause else {
                return Err(format!("qp{qp}: drained in {:?}", q.pause));
            };
            let done = q.flow.completed;
            ensure!(
                done >= begun,
                "qp{qp}: drained with {done} of {begun} complete"
            );
        }
        if self.plan.profile == Profile::Hostile {
            return Ok(());
        }
        let greedy = self.qps[q_peer].flow.greedy;
        let expected = |status: Status| {
            let too_many = greedy && status == Status::RemInvReq;
            too_many || dooms.iter().any(|f| f.statuses().contains(&status))
        };
        for (event, status) in [
            (Events::REQ_ERR, Status::RemInvReq),
            (Events::ACCESS_ERR, Status::RemAccess),
            (Events::FATAL, Status::RemOp),
        ] {
            self.qps[qp].fate.event |= events.contains(event);
            let fine = !events.contains(event) || expected(status);
            ensure!(fine, "qp{qp}: {events:?}, expected for {dooms:?}");
        }
        Ok(())
    }
}
