// SPDX-License-Identifier: GPL-2.0

//! Local operations: REG_MR, LOCAL_INV and the binding of windows. The device carries them out when
//! the transport names them, and the judges see that this is the right moment.

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::env::end_key;
use crate::host::sabotage::Sabotage;
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::fault::Fault;
use crate::model::verb::{Local, Verb};
use crate::profile::Profile;
use crate::run::world::World;
use oxe_proto::transport::Origin;

impl World {
    /// Carries out the request whose turn it is, if it is a local operation. Gives whether there
    /// was one.
    pub fn run_local(&mut self, qp: usize) -> Result<bool, Violation> {
        let q = &self.qps[qp];
        let turn = q.conn.poll_local(&q.send).map(|n| n as usize);
        let Some(index) = turn.or_else(|| self.untimely(qp)) else {
            return Ok(false);
        };
        let mut result = Ok(());
        if !self.saboteur.strikes(Sabotage::SkipLocal) {
            result = self.carry_out(qp, index)?;
        }
        if result.is_err() && self.saboteur.strikes(Sabotage::IgnoreLocalFailure) {
            result = Ok(());
        }
        let q = &mut self.qps[qp];
        q.conn.finish_local(result, &mut q.send);
        if result.is_ok() && q.flow.completed < index {
            self.complete_early(qp, index)?;
        }
        Ok(true)
    }

    /// Carries out the request. The error within is the status with which it fails.
    fn carry_out(&mut self, qp: usize, index: usize) -> Result<Result<(), Status>, Violation> {
        log!(self, "qp{qp} carries out {index}");
        self.view()
            .check_turn(qp, index)
            .map_err(|found| found.at(format_args!("qp{qp}: local request {index}")))?;
        self.count(Observation::CarriedOut);
        let q = &mut self.qps[qp];
        let op = &mut q.flow.ops[index];
        op.carried_out = true;
        if op.fault == Some(Fault::Unbindable) {
            return Ok(Err(Status::MwBind));
        }
        let regions = &mut self.hosts[q.host].regions;
        let done = match op.verb {
            Verb::Local(Local::Register(reg)) => {
                let inbox_at = self.qps[self.qps[qp].peer].flow.inbox_at;
                regions.register(inbox_at, &reg)
            }
            Verb::Local(Local::Invalidate(rkey)) => end_key(regions, rkey, &mut self.saboteur),
            _ => Ok(()),
        };
        // Forged messages end keys.
        let free = self.plan.profile == Profile::Hostile;
        ensure!(free || done.is_ok(), "qp{qp}: request {index}: {done:?}");
        Ok(Ok(()))
    }

    /// Sabotage: a local operation is carried out in spite of its fence or the state.
    fn untimely(&mut self, qp: usize) -> Option<usize> {
        let q = &self.qps[qp];
        let index = self.watches[qp].begun(&q.flow);
        let op = q.flow.ops.get(index).filter(|op| op.verb.is_local())?;
        let kind = match q.conn.state() {
            State::Rts if op.fence && self.watches[qp].check_local(&q.flow, index).is_err() => {
                Sabotage::IgnoreFence
            }
            State::Sqd | State::Err => Sabotage::UntimelyLocal,
            _ => return None,
        };
        self.saboteur.strikes(kind).then_some(index)
    }

    /// Sabotage: a local operation completes when it was carried out, before others.
    fn complete_early(&mut self, qp: usize, index: usize) -> Result<(), Violation> {
        if !self.saboteur.strikes(Sabotage::EarlyCompletion) {
            return Ok(());
        }
        let completion = SendCompletion {
            n: index as u32,
            status: Status::Success,
            byte_len: 0,
            signaled: self.qps[qp].flow.ops[index].signaled,
        };
        self.judge_completion(qp, completion)
    }

    /// Sabotage: the requester goes back, and the local operations are carried out again.
    pub fn repeat_local(&mut self, qp: usize, transmit: &Transmit) -> Result<(), Violation> {
        let Origin::Request { n } = transmit.origin else {
            return Ok(());
        };
        let q = &self.qps[qp];
        let packet = q.flow.packet(transmit.header.bth.psn.get());
        let later = q.flow.ops.iter().enumerate().skip(n as usize);
        let mut later = later.filter(|(_, op)| op.carried_out && op.done.is_none());
        let Some((index, _)) = later.next().filter(|_| self.watches[qp].was_sent(packet)) else {
            return Ok(());
        };
        if self.saboteur.strikes(Sabotage::RepeatLocal) {
            let _ = self.carry_out(qp, index)?;
        }
        Ok(())
    }
}
