// SPDX-License-Identifier: GPL-2.0

//! The judges of the errors and events that a program is told of.

use crate::check::ensure;
use crate::profile::Profile;
use crate::run::world::World;

impl World {
    /// A responder that has refused a request tells its program: by a receive that completes in
    /// error, or by an event (IBTA 11.6.3, affiliated asynchronous errors).
    pub fn judge_refusal(&self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let own = q.fate.killed || q.fate.first_error.is_some();
        let free = q.conn.is_foreign() || self.plan.profile == Profile::Hostile;
        let told = q.fate.event || q.fate.receive_error.is_some();
        ensure!(
            own || free || told,
            "qp{qp}: in error, and its program hears nothing"
        );
        Ok(())
    }

    /// A QP that took a request before it could send has said that communication is established
    /// (IBTA 11.6.3.2).
    pub fn judge_established(&self, qp: usize) -> Result<(), String> {
        let q = &self.qps[qp];
        let free = q.conn.is_foreign() || q.fate.established;
        ensure!(
            free || !q.fate.early,
            "qp{qp}: communication established, and no event"
        );
        Ok(())
    }
}
