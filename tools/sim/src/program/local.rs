// SPDX-License-Identifier: GPL-2.0

//! Local operations, as programs post them: REG_MR, LOCAL_INV and the binding of windows.

use super::{Post, Programs};
use crate::model::op::Op;
use crate::model::verb::{Local, Verb};

impl Programs<'_> {
    /// A local operation, perhaps: often at the beginning and at the end of a program, and after
    /// another one.
    pub fn draw_local(&mut self, qp: usize) -> Option<Post> {
        if !self.plan.local {
            return None;
        }
        if self.rng.one_in(2) {
            let keyed = self.draw_keyed(qp);
            if keyed.is_some() {
                return keyed;
            }
        }
        let q = &self.qps[qp];
        if q.conn.is_foreign() {
            return None;
        }
        let last = q.flow.ops.last();
        let often = q.todo == 1 || last.is_none_or(|op| op.verb.is_local());
        let here = self.rng.one_in(if often { 2 } else { 6 });
        here.then(|| (self.blank_local(Local::Bind), None))
    }

    /// A local operation.
    pub fn blank_local(&mut self, local: Local) -> Op {
        let mut op = self.blank(Verb::Local(local), 0);
        op.fence = self.rng.one_in(3);
        op
    }
}
