// SPDX-License-Identifier: GPL-2.0

//! One turn of the program behind a QP: a pause perhaps, a change perhaps, some requests, a rest.

use super::{Post, Programs};
use crate::api::State;
use crate::profile::US;

/// Most requests in a send queue.
const DEPTH: usize = 256;

/// What a program does with its QP.
pub enum Action {
    /// Drains the send queue.
    Pause,
    /// Changes an attribute under traffic: the minimum RNR NAK timer, or the number of responder
    /// resources.
    ChangeTimer(u8),
    ChangeResources(usize),
    /// Posts a request.
    Post(Box<Post>),
    /// Rings the doorbell.
    Ring,
    /// Rests for so long, ns; another turn follows.
    Rest(u64),
}

enum Step {
    Pause,
    Change,
    Begin,
    Post(u64),
    Rest,
    Done,
}

/// A turn, step by step: each is drawn when those before it are carried out.
pub struct Turn {
    qp: usize,
    step: Step,
}

impl Turn {
    /// The turn of the program behind a QP.
    pub fn new(qp: usize) -> Turn {
        let step = Step::Pause;
        Turn { qp, step }
    }

    /// The next action.
    pub fn next(&mut self, programs: &mut Programs) -> Option<Action> {
        let (qp, plan) = (self.qp, programs.plan);
        loop {
            match self.step {
                Step::Pause => {
                    self.step = Step::Change;
                    if programs.rng.chance(plan.pause) {
                        return Some(Action::Pause);
                    }
                }
                Step::Change => {
                    self.step = Step::Begin;
                    if programs.rng.chance(plan.change) {
                        if let Some(change) = programs.draw_change(qp) {
                            return Some(change);
                        }
                    }
                }
                Step::Begin => {
                    let room = programs.room(qp) as u64;
                    let batch = programs.rng.range(1, plan.batch);
                    self.step = Step::Post(batch.min(programs.qps[qp].todo).min(room));
                }
                Step::Post(0) => {
                    self.step = Step::Rest;
                    return Some(Action::Ring);
                }
                Step::Post(count) => {
                    self.step = Step::Post(count - 1);
                    return Some(Action::Post(programs.draw(qp).into()));
                }
                Step::Rest => {
                    self.step = Step::Done;
                    return Some(Action::Rest(match programs.rng.below(4) {
                        0 => 0,
                        1 => programs.rng.below(10 * US),
                        _ => programs.rng.below(plan.rest),
                    }));
                }
                Step::Done => return None,
            }
        }
    }
}

impl Programs<'_> {
    /// The requests that the send queue has room for.
    fn room(&self, qp: usize) -> usize {
        let flow = &self.qps[qp].flow;
        DEPTH - (flow.ops.len() - flow.completed)
    }

    /// The answer to a message that was received: a request, if the program has any left to post.
    pub fn respond(&mut self, qp: usize) -> Option<Post> {
        let q = &self.qps[qp];
        if q.fate.dead || q.todo == 0 || q.conn.state() != State::Rts || self.room(qp) == 0 {
            return None;
        }
        Some(self.draw(qp))
    }

    /// Something that may change under traffic.
    fn draw_change(&mut self, qp: usize) -> Option<Action> {
        if self.qps[qp].conn.state() != State::Rts {
            return None;
        }
        if self.rng.one_in(2) {
            return Some(Action::ChangeTimer(self.rng.range(1, 14) as u8));
        }
        // Never fewer than the peer may use.
        let least = self.qps[self.qps[qp].peer].initial_max_rd_atomic;
        let resources = self.rng.range(least.into(), 20) as usize;
        Some(Action::ChangeResources(resources))
    }
}
