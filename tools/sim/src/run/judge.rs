// SPDX-License-Identifier: GPL-2.0

//! Shows the judges completions, verdicts and events, and notes in the model what these change.

use super::world::{Event, World};
use crate::api::*;
use crate::check::Violation;
use crate::judge::events::ERRORS;
use crate::judge::stats::{KeyEnd, Observation};
use crate::judge::view::View;
use crate::log::log;
use crate::model::verb::{Local, Verb};
use crate::profile::US;

impl World {
    /// What the judges see.
    pub fn view(&self) -> View<'_> {
        View {
            now: self.now,
            plan: &self.plan,
            hosts: &self.hosts,
            qps: &self.qps,
            watches: &self.watches,
        }
    }

    /// A send completion.
    pub fn judge_completion(&mut self, qp: usize, c: SendCompletion) -> Result<(), Violation> {
        log!(self, "qp{qp} completes {c:?}");
        let index = self.view().check_order(qp, &c)?;
        self.qps[qp].flow.complete(c.status);
        let result = match c.status {
            Status::Success => self.view().check_success(qp, index, &c),
            status => self.view().check_failure(qp, index, status),
        };
        result.map_err(|found| {
            let op = &self.qps[qp].flow.ops[index];
            let (verb, len) = (op.verb, op.len);
            found.at(format_args!(
                "qp{qp}: request {index} {verb:?}+{len}: {c:?}"
            ))
        })?;
        self.count(Observation::Completed(c.status));
        match c.status {
            Status::Success => self.succeeded(qp, index),
            status => {
                self.qps[qp].fate.first_error.get_or_insert(status);
            }
        }
        Ok(())
    }

    /// A request has succeeded: what it has brought belongs to the memory.
    fn succeeded(&mut self, qp: usize, index: usize) {
        let q = &self.qps[qp];
        let op = &q.flow.ops[index];
        let mut key_end = None;
        if op.verb.brings_data() {
            let memory = &mut self.hosts[q.host].memory;
            memory.accept(op.local, op.len as usize);
            let ends = op.keys.lkey.is_some() && op.keys.ends;
            key_end = ends.then_some(KeyEnd::Read);
        } else if matches!(op.verb, Verb::Local(Local::Invalidate(_))) {
            key_end = Some(KeyEnd::LocalInv);
        }
        if let Some(end) = key_end.filter(|_| !self.view().is_hostile()) {
            self.count(Observation::KeyEnded(end));
        }
    }

    /// A receive completion.
    pub fn judge_receive(
        &mut self,
        qp: usize,
        slot: usize,
        c: RecvCompletion,
    ) -> Result<(), Violation> {
        log!(self, "qp{qp} receives {slot} {c:?}");
        self.view().check_receive_once(qp, slot, &c)?;
        let q = &mut self.qps[qp];
        q.recv.slots[slot].done = Some(c.status);
        if let Some(srq) = &mut self.hosts[q.host].srq {
            srq.completed += 1;
        }
        if self.view().is_hostile() {
            self.accept_receive(qp, slot);
            return Ok(());
        }
        let result = match c.status {
            Status::Success => self.view().check_received(qp, slot, &c),
            status => self.view().check_receive_error(qp, slot, status),
        };
        result.map_err(|found| found.at(format_args!("qp{qp}: receive {slot}: {c:?}")))?;
        match c.status {
            Status::Success => self.received(qp, slot)?,
            Status::WrFlush => {}
            status => self.qps[qp].fate.receive_error = Some(status),
        }
        Ok(())
    }

    fn accept_receive(&mut self, qp: usize, slot: usize) {
        let q = &self.qps[qp];
        let slot = &q.recv.slots[slot];
        self.hosts[q.host].memory.accept(slot.at, slot.cap as usize);
    }

    /// A message was received: its program heeds it, and perhaps answers.
    fn received(&mut self, qp: usize, slot: usize) -> Result<(), Violation> {
        let index = self.view().sent_to(qp, slot)?;
        self.accept_receive(qp, slot);
        let peer = self.qps[qp].peer;
        self.qps[peer].flow.received += 1;
        if self.programs().heed(qp, index) {
            self.count(Observation::KeyEnded(KeyEnd::Send));
        }
        if self.plan.dialogue {
            let pause = self.rng.below(30 * US);
            self.after(pause, Event::Respond { qp });
        }
        Ok(())
    }

    /// The verdict on a packet.
    pub fn judge_verdict(
        &mut self,
        qp: usize,
        verdict: Verdict,
        empty: bool,
    ) -> Result<(), Violation> {
        self.count(Observation::Verdict(verdict));
        let Verdict::Dropped(cause) = verdict else {
            return Ok(());
        };
        self.view().check_dropped(qp, cause, empty)
    }

    /// Events of a QP.
    pub fn judge_events(&mut self, qp: usize, events: Events) -> Result<(), Violation> {
        self.view().check_events(qp, events)?;
        let hostile = self.view().is_hostile();
        let fate = &mut self.qps[qp].fate;
        fate.established |= events.contains(Events::COMM_EST);
        let mut errors = ERRORS.iter();
        fate.event |= !hostile && errors.any(|(event, _)| events.contains(*event));
        Ok(())
    }
}
