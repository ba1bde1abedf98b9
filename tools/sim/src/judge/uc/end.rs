// SPDX-License-Identifier: GPL-2.0

//! The judge of the end: every request and every receive of a UC QP is complete, and what had to
//! arrive has arrived.

use super::UcView;
use crate::api::ConnectedQp;
use crate::check::{ensure, Violation};
use crate::model::uc::Phase;

impl UcView<'_> {
    /// Nothing more is scheduled: no request may be pending. Where neither the network nor a
    /// program did harm, each message has arrived once (IBTA 9.8.2).
    pub fn check_rest(&self) -> Result<(), Violation> {
        let good = self.habits.are_good() && self.plan.absent == 0;
        let good = good && !self.plan.impairment.is_ill();
        for (end, e) in self.ends.iter().enumerate() {
            let (posted, done) = (e.flow.messages.len(), e.flow.completed);
            ensure!(
                posted == done && e.todo == 0 && e.uncopied.is_empty(),
                "uc{end} in {:?}, {:?}: {done} of {posted} requests complete, {} not posted",
                e.qp.state(),
                e.phase,
                e.todo
            );
            let rests = matches!(e.phase, Phase::Up | Phase::Dead);
            ensure!(rests, "uc{end}: rests in {:?}", e.phase);
            let mut lost = e.flow.messages.iter().filter(|m| !m.is_local());
            let lost = lost.position(|m| m.arrived != 1);
            ensure!(
                "IBTA 9.8.2",
                !good || lost.is_none(),
                "uc{end}: message {lost:?} did not arrive once"
            );
        }
        Ok(())
    }

    /// Each request and each receive has completed.
    pub fn check_end(&self) -> Result<(), Violation> {
        for (end, e) in self.ends.iter().enumerate() {
            let (posted, done) = (e.flow.messages.len(), e.flow.completed);
            ensure!(posted == done, "uc{end}: {done} of {posted} are complete");
            self.check_receives_done(end)?;
        }
        Ok(())
    }

    /// No receive is outstanding.
    pub fn check_receives_done(&self, end: usize) -> Result<(), Violation> {
        let slots = &self.ends[end].recv.slots;
        let open = slots.iter().position(|slot| slot.done.is_none());
        ensure!(
            open.is_none(),
            "uc{end}: receive {open:?} of {} never completes",
            slots.len()
        );
        Ok(())
    }
}
