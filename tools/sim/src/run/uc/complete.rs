// SPDX-License-Identifier: GPL-2.0

//! Send completions and events of a UC QP, and requests that send nothing.

use crate::api::*;
use crate::check::ensure;
use crate::host::memory::ALL_RIGHTS;
use crate::host::sabotage::Sabotage;
use crate::log::tell;
use crate::model::uc::{Action, Fault, Phase, Verb};
use crate::profile::{MS, US};
use crate::run::world::{Event, World};

impl World {
    /// Takes completions and events of the QP.
    pub fn uc_report(&mut self, end: usize) -> Result<(), String> {
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
            self.uc_judge_completion(end, before, c)?;
            if self.saboteur.strikes(Sabotage::UcRepeatCompletion) {
                self.uc_judge_completion(end, before, c)?;
            }
        }
        self.uc_judge_flushed(end)?;
        self.uc_take_events(end)
    }

    /// A send completion: in the order of posting, once, with the status that the request deserves
    /// (IBTA 10.3.1, 11.6.2). A message is complete when all its packets are sent and the payload
    /// is copied (IBTA 9.8.2).
    fn uc_judge_completion(
        &mut self,
        end: usize,
        before: State,
        c: SendCompletion,
    ) -> Result<(), String> {
        tell!(self, "uc{end} completes {c:?}");
        let e = &mut self.uc.ends[end];
        let m = e.completed;
        let (base, after) = (e.base, e.qp.state());
        let message = e.messages.get_mut(m);
        let message = message.ok_or_else(|| format!("uc{end}: {c:?} of nothing posted"))?;
        ensure!(base + c.n as usize == m, "uc{end}: {c:?}, expected {m}");
        let posted = message.request();
        ensure!(
            c.signaled == posted.signaled,
            "uc{end}: {c:?} of {posted:?}"
        );
        let wrong = format!("uc{end}: request {m} completes as {c:?} in {before:?}");
        match c.status {
            Status::Success => {
                let fine = message.finished && message.copied && !message.failed;
                ensure!(fine && c.byte_len == message.len(), "{wrong}");
                ensure!(before == after, "{wrong}, then {after:?}");
            }
            Status::WrFlush => {
                // IBTA 10.3.1.6.
                let flushed = matches!(before, State::Sqe | State::Err) && before == after;
                ensure!(flushed && !message.finished, "{wrong}, then {after:?}");
                self.stats.uc.flushed += 1;
            }
            status => {
                let fault = message.fault.map(Fault::status);
                let fails = message.failed || message.fails_at_once() && message.sent == 0;
                let same = fault == Some(status) && fails && !message.finished;
                ensure!(same, "{wrong}, fault {fault:?}");
                // The send queue alone is in error (IBTA 10.3.1.6).
                let wanted = match before {
                    State::Rts => State::Sqe,
                    other => other,
                };
                ensure!(after == wanted, "{wrong}, then {after:?}");
                self.stats.uc.failed += 1;
            }
        }
        message.done = Some(c.status);
        e.completed = m + 1;
        e.current = e.current.max(m + 1);
        if e.phase == Phase::Up && after == State::Sqe {
            e.phase = Phase::Failed;
            let pause = self.rng.below(500 * US);
            self.uc_later(end, pause, Action::Ready);
        }
        self.uc_reuse_memory(end, m);
        Ok(())
    }

    /// The program uses the memory of a request that is complete for something else.
    fn uc_reuse_memory(&mut self, end: usize, m: usize) {
        let e = &self.uc.ends[end];
        let (host, message) = (e.host, &e.messages[m]);
        let (at, len) = (message.at, message.data.len());
        let old: Vec<u8> = message.data.iter().map(|byte| !byte).collect();
        let memory = &mut self.hosts[host].memory;
        memory.write(at, &old);
        memory.accept(at, len);
    }

    /// In SQE and in error no request is left, but for those whose payload is not copied
    /// (IBTA 10.3.1, 10.3.1.6).
    fn uc_judge_flushed(&self, end: usize) -> Result<(), String> {
        let e = &self.uc.ends[end];
        let flushes = matches!(e.qp.state(), State::Sqe | State::Err);
        let open = e.messages.len() - e.completed;
        let waits = !e.uncopied.is_empty();
        ensure!(
            !flushes || open == 0 || waits,
            "uc{end}: {open} requests are not flushed in {:?}",
            e.qp.state()
        );
        Ok(())
    }

    /// Events have a reason, and come at once: communication established, send queue drained
    /// (IBTA 11.6.3.2), and that the QP is in error.
    fn uc_take_events(&mut self, end: usize) -> Result<(), String> {
        let e = &mut self.uc.ends[end];
        let mut events = e.qp.take_events();
        if !events.is_empty() && self.saboteur.strikes(Sabotage::UcLoseEvent) {
            events = Events::NONE;
        }
        let mut owed = std::mem::replace(&mut self.uc.responders[end].events, Events::NONE);
        let is_dead = owed.contains(Events::ENTERED_ERROR);
        let begun = e.messages.get(e.current);
        let begun = begun.is_some_and(|m| m.sent > 0 && !m.failed);
        let drained = !is_dead && e.phase == Phase::Draining && !begun && e.uncopied.is_empty();
        if drained {
            owed = owed.union(Events::SQ_DRAINED);
        }
        ensure!(events == owed, "uc{end}: events {events:?}, not {owed:?}");
        let draining = !is_dead && e.phase == Phase::Draining && !drained;
        let says = e.qp.is_draining();
        ensure!(says == draining, "uc{end}: drains {says}, not {draining}");
        if drained {
            e.phase = Phase::Drained;
            self.stats.uc.drained += 1;
            let pause = self.rng.below(MS);
            self.uc_later(end, pause, Action::Ready);
        }
        if is_dead {
            self.uc_dead(end)?;
        }
        Ok(())
    }

    /// Schedules an action of the QP's program.
    pub fn uc_later(&mut self, end: usize, pause: u64, action: Action) {
        self.allow(pause + MS);
        self.after(pause, Event::Uc { end, action });
    }

    /// Carries out the request whose turn it is, if it sends nothing. Gives whether there was one.
    pub fn run_uc_local(&mut self, end: usize) -> Result<bool, String> {
        let e = &self.uc.ends[end];
        let mut turn = e.qp.poll_local(&e.send).map(|n| e.base + n as usize);
        let next = e.messages.get(e.current);
        let waits = next.is_some_and(|next| next.is_local()) && !e.uncopied.is_empty();
        if turn.is_none() && waits && self.saboteur.strikes(Sabotage::UcEarlyLocal) {
            turn = Some(self.uc.ends[end].current);
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

    /// Carries out a request that sends nothing: once, in the order of posting (IBTA 10.8.3.3), in
    /// RTS alone (IBTA 10.3.1), and when no payload is to be read any more, as its key may end.
    fn uc_carry_out(&mut self, end: usize, m: usize) -> Result<Result<(), Status>, String> {
        tell!(self, "uc{end} carries out {m}");
        self.stats.uc.locals += 1;
        let e = &mut self.uc.ends[end];
        let turn = m == e.current && e.phase == Phase::Up && e.qp.state() == State::Rts;
        let message = e.messages.get_mut(m);
        let message = message.ok_or("local request of nothing posted")?;
        let fine = message.is_local() && !message.finished && !message.failed;
        ensure!(turn && fine, "uc{end}: {m} is carried out, {message:?}");
        ensure!(
            e.uncopied.is_empty() && e.completed == m,
            "uc{end}: {m} is carried out before {} is complete",
            e.completed
        );
        if message.fault.is_some() {
            message.failed = true;
            return Ok(Err(Status::MwBind));
        }
        (message.finished, message.copied) = (true, true);
        e.current = m + 1;
        if message.verb == (Verb::Local { rekeys: true }) {
            self.uc_rekey(end)?;
        }
        Ok(Ok(()))
    }

    /// The memory that the peer writes to gets another key. WRITEs by the old one are refused, also
    /// in the middle of a message.
    fn uc_rekey(&mut self, end: usize) -> Result<(), String> {
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
