// SPDX-License-Identifier: GPL-2.0

//! The judges of the end: every request and every receive of a UC QP is complete, and what had to
//! arrive has arrived.

use crate::api::ConnectedQp;
use crate::check::ensure;
use crate::model::uc::Phase;
use crate::run::world::World;

impl World {
    /// Nothing more is scheduled: no request may be pending. Where neither the network nor a
    /// program did harm, each message has arrived once (IBTA 9.8.2).
    pub fn uc_at_rest(&self) -> Result<(), String> {
        let good = self.uc.habits.are_good() && self.plan.absent == 0;
        let good = good && !self.plan.impairment.is_ill();
        for (end, e) in self.uc.ends.iter().enumerate() {
            let (posted, done) = (e.messages.len(), e.completed);
            ensure!(
                posted == done && e.todo == 0 && e.uncopied.is_empty(),
                "uc{end} in {:?}, {:?}: {done} of {posted} requests complete, {} not posted",
                e.qp.state(),
                e.phase,
                e.todo
            );
            let rests = matches!(e.phase, Phase::Up | Phase::Dead);
            ensure!(rests, "uc{end}: rests in {:?}", e.phase);
            let mut lost = e.messages.iter().filter(|m| !m.is_local());
            let lost = lost.position(|m| m.arrived != 1);
            ensure!(
                !good || lost.is_none(),
                "uc{end}: message {lost:?} did not arrive once"
            );
        }
        Ok(())
    }

    /// The programs close their UC QPs, with something still posted.
    pub fn uc_close(&mut self) -> Result<(), String> {
        for end in 0..self.uc.ends.len() {
            let count = self.rng.below(4);
            self.uc_post_receives(end, count)?;
            for late in [false, true] {
                if self.rng.one_in(2) {
                    self.uc_post(end);
                }
                if !late {
                    self.uc_kill(end)?;
                }
            }
            self.pump_uc(end)?;
        }
        Ok(())
    }

    /// Each request and each receive has completed.
    pub fn uc_at_end(&mut self) -> Result<(), String> {
        for (end, e) in self.uc.ends.iter().enumerate() {
            let (posted, done) = (e.messages.len(), e.completed);
            ensure!(posted == done, "uc{end}: {done} of {posted} are complete");
            let mut receives = e.recv.slots.iter();
            let open = receives.position(|r| r.done.is_none());
            ensure!(
                open.is_none(),
                "uc{end}: receive {open:?} of {} never completes",
                e.recv.slots.len()
            );
            self.stats.uc.dropped += self.uc.responders[end].dropped;
            self.stats.uc.revived += self.uc.responders[end].revived;
        }
        Ok(())
    }
}
