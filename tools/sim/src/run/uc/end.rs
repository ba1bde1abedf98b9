// SPDX-License-Identifier: GPL-2.0

//! The end of a run for its UC QPs.

use crate::check::Violation;
use crate::judge::stats::uc::Observation;
use crate::judge::uc::UcView;
use crate::run::world::World;

impl World {
    /// What the judges of UC QPs see.
    pub fn uc_view(&self) -> UcView<'_> {
        UcView {
            plan: &self.plan,
            habits: &self.uc.habits,
            hosts: &self.hosts,
            ends: &self.uc.ends,
            responders: &self.uc.responders,
        }
    }

    /// The programs close their UC QPs, with something still posted.
    pub fn uc_close(&mut self) -> Result<(), Violation> {
        for end in 0..self.uc.ends.len() {
            let count = self.rng.below(4);
            self.uc_post_receives(end, count)?;
            for late in [false, true] {
                if self.rng.one_in(2) {
                    let message = self.uc_programs().draw(end);
                    self.uc_post(end, message);
                }
                if !late {
                    self.uc_kill(end)?;
                }
            }
            self.pump_uc(end)?;
        }
        Ok(())
    }

    /// The judge sees the end.
    pub fn uc_at_end(&mut self) -> Result<(), Violation> {
        self.uc_view().check_end()?;
        for end in 0..self.uc.responders.len() {
            self.uc_responder_ends(end);
        }
        Ok(())
    }

    /// The life of a responder ends.
    pub fn uc_responder_ends(&mut self, end: usize) {
        let responder = &self.uc.responders[end];
        let (dropped, late) = (responder.dropped, responder.late_duplicates);
        self.uc_count(Observation::Ended { dropped, late });
    }
}
