// SPDX-License-Identifier: GPL-2.0

//! Send completions and events of a UC QP, and local operations.

use crate::api::*;
use crate::check::Violation;
use crate::host::memory::ALL_RIGHTS;
use crate::host::sabotage::Sabotage;
use crate::judge::stats::uc::Observation;
use crate::log::log;
use crate::model::uc::{Phase, Verb};
use crate::profile::{MS, US};
use crate::run::world::{Event, UcEvent, World};

impl World {
    /// Takes completions and events of the QP.
    pub fn uc_report(&mut self, end: usize) -> Result<(), Violation> {
        loop {
            let e = &mut self.uc.ends[end];
            let before = e.qp.state();
            let Some(mut c) = e.qp.poll_send_completion(&mut e.send) else {
                break;
            };
            e.send.retired += 1;
            let failed = before == State::Rts && e.qp.state() == State::Sqe;
            if failed && self.saboteur.strikes(Sabotage::UcIgnoreFailure) {
                let _ = e.qp.modify(&Modify::to_state(State::Rts));
            }
            if self.saboteur.strikes(Sabotage::UcLoseCompletion) {
                continue;
            }
            let success = c.status == Status::Success;
            if success && self.saboteur.strikes(Sabotage::UcWrongStatus) {
                c.status = Status::WrFlush;
            }
            if self.saboteur.strikes(Sabotage::UcWrongSignal) {
                c.signaled = !c.signaled;
            }
            self.uc_complete(end, before, c)?;
            if self.saboteur.strikes(Sabotage::UcRepeatCompletion) {
                self.uc_complete(end, before, c)?;
            }
        }
        self.uc_view().check_flushed(end)?;
        self.uc_take_events(end)
    }

    /// A send completion, which the judge sees first.
    fn uc_complete(
        &mut self,
        end: usize,
        before: State,
        c: SendCompletion,
    ) -> Result<(), Violation> {
        log!(self, "uc{end} completes {c:?}");
        let m = self.uc_view().check_completion(end, before, &c)?;
        self.uc_count(Observation::Completed(c.status));
        let e = &mut self.uc.ends[end];
        e.flow.complete(m, c.status);
        if e.phase == Phase::Up && e.qp.state() == State::Sqe {
            e.phase = Phase::Failed;
            let pause = self.rng.below(500 * US);
            self.uc_later(end, pause, UcEvent::Ready);
        }
        self.uc_reuse_memory(end, m);
        Ok(())
    }

    /// The program uses the memory of a request that is complete for something else.
    fn uc_reuse_memory(&mut self, end: usize, m: usize) {
        let e = &self.uc.ends[end];
        let (host, message) = (e.host, &e.flow.messages[m]);
        let (at, len) = (message.at, message.data.len());
        let old: Vec<u8> = message.data.iter().map(|byte| !byte).collect();
        let memory = &mut self.hosts[host].memory;
        memory.write(at, &old);
        memory.accept(at, len);
    }

    /// Takes the events of the QP, and acts on them.
    fn uc_take_events(&mut self, end: usize) -> Result<(), Violation> {
        let mut events = self.uc.ends[end].qp.take_events();
        if !events.is_empty() && self.saboteur.strikes(Sabotage::UcLoseEvent) {
            events = Events::NONE;
        }
        self.uc_view().check_events(end, events)?;
        self.uc.responders[end].events = Events::NONE;
        if events.contains(Events::SQ_DRAINED) {
            self.uc.ends[end].phase = Phase::Drained;
            self.uc_count(Observation::Drained);
            let pause = self.rng.below(MS);
            self.uc_later(end, pause, UcEvent::Ready);
        }
        if events.contains(Events::ENTERED_ERROR) {
            self.uc_dead(end)?;
        }
        Ok(())
    }

    /// Schedules an action of the QP's program.
    pub fn uc_later(&mut self, end: usize, pause: u64, event: UcEvent) {
        self.allow(pause + MS);
        self.after(pause, Event::Uc { end, event });
    }

    /// Carries out the request whose turn it is, if it is a local operation. Gives whether there
    /// was one.
    pub fn run_uc_local(&mut self, end: usize) -> Result<bool, Violation> {
        let e = &self.uc.ends[end];
        let mut turn = e.qp.poll_local(&e.send).map(|n| e.flow.base + n as usize);
        let next = e.flow.messages.get(e.flow.current);
        let waits = next.is_some_and(|next| next.is_local()) && !e.uncopied.is_empty();
        if turn.is_none() && waits && self.saboteur.strikes(Sabotage::UcEarlyLocal) {
            turn = Some(self.uc.ends[end].flow.current);
        }
        let Some(m) = turn else {
            return Ok(false);
        };
        let mut result = Ok(());
        if !self.saboteur.strikes(Sabotage::UcSkipLocal) {
            result = self.uc_carry_out(end, m)?;
        }
        let e = &mut self.uc.ends[end];
        e.qp.finish_local(result, &mut e.send);
        self.uc_report(end)?;
        Ok(true)
    }

    /// Carries out a local operation. The error within is the status with which it fails.
    fn uc_carry_out(&mut self, end: usize, m: usize) -> Result<Result<(), Status>, Violation> {
        log!(self, "uc{end} carries out {m}");
        self.uc_count(Observation::CarriedOut);
        self.uc_view().check_turn(end, m)?;
        let flow = &mut self.uc.ends[end].flow;
        let result = flow.carry_out(m);
        if result.is_ok() && flow.messages[m].verb == (Verb::Local { rekeys: true }) {
            self.uc_rekey(end)?;
        }
        Ok(result)
    }

    /// The memory that the peer writes to gets another key. WRITEs by the old one are refused, also
    /// in the middle of a message.
    fn uc_rekey(&mut self, end: usize) -> Result<(), Violation> {
        let e = &mut self.uc.ends[end];
        let regions = &mut self.hosts[e.host].regions;
        let (rkey, at, len) = {
            let old = &regions.0[e.inbox];
            (old.rkey, old.at, old.len)
        };
        let ended = regions.invalidate(rkey);
        ended.map_err(|why| format!("uc{end}: key {rkey:#x}: {why:?}"))?;
        e.inbox = regions.add(at, len, ALL_RIGHTS, &mut self.rng);
        Ok(())
    }
}
