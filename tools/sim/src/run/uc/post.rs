// SPDX-License-Identifier: GPL-2.0

//! What the programs behind UC QPs do.

use crate::check::Violation;
use crate::host::queues::SendSlot;
use crate::judge::stats::uc::Observation;
use crate::log::log;
use crate::model::uc::{Message, Phase};
use crate::program::uc::{Action, Turn, UcPrograms};
use crate::run::world::{UcEvent, World};

impl World {
    /// Processes an event of a UC QP.
    pub fn uc_step(&mut self, end: usize, event: UcEvent) -> Result<(), Violation> {
        match event {
            UcEvent::Tick => self.uc_tick(end),
            UcEvent::Pump => {
                self.uc.ends[end].pump_at = None;
                self.pump_uc(end)
            }
            UcEvent::Copy => self.copy_uc(end),
            UcEvent::Connect => {
                let count = self.uc_programs().draw_receives_due(end);
                self.uc_post_receives(end, count)?;
                self.uc_connect(end)
            }
            UcEvent::Ready => self.uc_ready(end),
            UcEvent::Reset => match self.uc.ends[end].phase {
                Phase::Dead => self.uc_reset(end),
                _ => Ok(()),
            },
        }
    }

    /// The programs, with what they draw from.
    pub fn uc_programs(&mut self) -> UcPrograms<'_> {
        UcPrograms {
            plan: &self.plan,
            habits: &self.uc.habits,
            rng: &mut self.rng,
            hosts: &mut self.hosts,
            ends: &mut self.uc.ends,
        }
    }

    /// The program behind a QP has its turn, and perhaps another.
    fn uc_tick(&mut self, end: usize) -> Result<(), Violation> {
        let mut turn = Turn::new(end);
        while let Some(act) = turn.next(&mut self.uc_programs()) {
            match act {
                Action::Change => self.uc_change(end)?,
                Action::Pause => self.uc_pause(end)?,
                Action::Kill => self.uc_kill(end)?,
                Action::Reset => self.uc_reset(end)?,
                Action::Receives(count) => self.uc_post_receives(end, count)?,
                Action::Post(message) => self.uc_post(end, message),
                Action::Ring => self.pump_uc(end)?,
                Action::Rest(rest) => self.uc_later(end, rest, UcEvent::Tick),
            }
        }
        Ok(())
    }

    /// The program posts a request.
    pub fn uc_post(&mut self, end: usize, message: Message) {
        let kind = (message.verb, message.len(), message.fault);
        log!(self, "uc{end} posts {kind:?}");
        self.uc_count(Observation::Posted);
        if message.flaw.is_some() {
            self.uc_count(Observation::Flawed);
        }
        let e = &mut self.uc.ends[end];
        let slot = SendSlot::new(message.request(), message.at, message.len());
        e.send.slots.push(slot);
        e.flow.messages.push(message);
    }
}
