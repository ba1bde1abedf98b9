// SPDX-License-Identifier: GPL-2.0

//! The judge of local operations, and of the keys that they end.

use super::view::View;
use crate::api::State;
use crate::check::{ensure, Violation};
use crate::host::qp::Qp;
use crate::model::outcome::Pause;
use crate::model::verb::{Local, Verb};

impl View<'_> {
    /// A local operation is carried out once, in the order of posting (IBTA 10.8.3.3), and not in
    /// SQD or in error (IBTA 10.3.1).
    pub fn check_turn(&self, qp: usize, index: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let op = q.flow.ops.get(index).ok_or("was not posted")?;
        ensure!(op.verb.is_local(), "is {:?}", op.verb);
        ensure!("IBTA 10.8.3.3", !op.carried_out, "is carried out again");
        let state = q.conn.state();
        let healthy = state == State::Rts && q.pause == Pause::No && !q.fate.dead;
        ensure!(
            "IBTA 10.3.1",
            healthy,
            "is carried out in {state:?}, {:?}",
            q.pause
        );
        let failed = q.fate.first_error;
        ensure!(
            "IBTA 10.3.1",
            failed.is_none(),
            "is carried out after {failed:?}"
        );
        let live = q.flow.completed <= index && op.done.is_none();
        ensure!("IBTA 10.8.3.3", live, "is carried out after its completion");
        check_locals_before(q, index)?;
        if self.is_hostile() {
            return Ok(());
        }
        self.watches[qp].check_local(&q.flow, index)
    }

    /// A request begins no sooner than the local operations before it are carried out
    /// (IBTA 10.8.3.3).
    pub fn check_begin(&self, qp: usize, index: usize) -> Result<(), Violation> {
        check_locals_before(&self.qps[qp], index)
            .map_err(|found| found.at(format_args!("qp{qp}: request {index}")))
    }

    /// A local operation is complete, with success.
    pub fn check_local_done(&self, qp: usize, index: usize) -> Result<(), Violation> {
        let op = &self.qps[qp].flow.ops[index];
        ensure!(op.carried_out, "it was not carried out");
        if let Verb::Local(Local::Invalidate(rkey)) = op.verb {
            self.check_key_gone(qp, rkey)?;
        }
        Ok(())
    }

    /// A key of this QP's host is not valid any more.
    pub fn check_key_gone(&self, qp: usize, rkey: u32) -> Result<(), Violation> {
        let valid = self.hosts[self.qps[qp].host].regions.is_valid(rkey);
        ensure!(!valid, "the key {rkey:#x} is still valid");
        Ok(())
    }
}

/// All local operations before `index` were carried out.
fn check_locals_before(q: &Qp, index: usize) -> Result<(), Violation> {
    let from = q.flow.completed.min(index);
    let mut open = q.flow.ops[from..index].iter();
    let open = open.position(|op| op.verb.is_local() && !op.carried_out);
    let open = open.map(|n| from + n);
    ensure!(
        "IBTA 10.8.3.3",
        open.is_none(),
        "begins before local request {open:?}"
    );
    Ok(())
}
