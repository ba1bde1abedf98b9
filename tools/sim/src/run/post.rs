// SPDX-License-Identifier: GPL-2.0

//! What the programs do in their turns, and the posting of requests and receives.

use crate::api::*;
use crate::check::Violation;
use crate::host::queues::SendSlot;
use crate::judge::stats::Observation;
use crate::log::log;
use crate::model::fault::Fault;
use crate::model::verb::Verb;
use crate::profile::MS;
use crate::program::placement::send_flush;
use crate::program::turn::{Action, Turn};
use crate::program::{Post, Programs};
use crate::run::world::{Event, World};
use oxe_proto::transport::time;

impl World {
    /// The programs, with what they draw from.
    pub fn programs(&mut self) -> Programs<'_> {
        Programs {
            plan: &self.plan,
            rng: &mut self.rng,
            hosts: &mut self.hosts,
            qps: &mut self.qps,
        }
    }

    /// The program behind a QP has its turn, and will have another.
    pub fn tick(&mut self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        if q.fate.dead || q.todo == 0 {
            return Ok(());
        }
        if matches!(q.conn.state(), State::Reset | State::Rtr) {
            self.after(MS, Event::Tick { qp });
            return Ok(());
        }
        let mut turn = Turn::new(qp);
        while let Some(action) = turn.next(&mut self.programs()) {
            self.act(qp, action)?;
        }
        Ok(())
    }

    /// Carries out what a program wants.
    fn act(&mut self, qp: usize, action: Action) -> Result<(), Violation> {
        match action {
            Action::Pause => self.pause(qp),
            Action::ChangeTimer(timer) => self.change_timer(qp, timer),
            Action::ChangeResources(count) => {
                self.change_resources(qp, count);
                Ok(())
            }
            Action::Post(post) => {
                self.post(qp, *post);
                Ok(())
            }
            Action::Ring => self.pump(qp),
            Action::Rest(gap) => {
                self.allow_for(qp, gap);
                self.after(gap, Event::Tick { qp });
                Ok(())
            }
        }
    }

    /// The program behind a QP answers a message by a request, if it has any left to post.
    pub fn answer(&mut self, qp: usize) -> Result<(), Violation> {
        let Some(post) = self.programs().respond(qp) else {
            return Ok(());
        };
        self.post(qp, post);
        self.allow_for(qp, 0);
        self.pump(qp)
    }

    /// Extends the deadline by what the QP and its peer may still need after `ns`.
    pub fn allow_for(&mut self, qp: usize, ns: u64) {
        let q = &self.qps[qp];
        let p = &self.qps[q.peer];
        let mut need = ns + 20 * MS;
        for end in [q, p] {
            // The waits after the first are twice the timeout.
            let timeout = time::ack_timeout(end.setup.timeout).unwrap_or(0);
            // A responder that is asked for more than it has room for forgets a READ.
            let forgets = end.flow.exceeds_resources;
            let patience = if forgets || p.fate.dead || q.fate.dead {
                9
            } else {
                3
            };
            need += 2 * patience * (timeout + self.plan.timer_slack);
            let rnr = time::rnr_delay(end.setup.min_rnr_timer) + self.plan.timer_slack;
            need += end.flow.consuming.len() as u64 * (rnr + 3 * MS);
        }
        self.allow(need);
    }

    /// Posts a request.
    pub fn post(&mut self, qp: usize, (mut op, inbox): Post) {
        op.risk = self.risk(qp, &op);
        self.count(Observation::Posted);
        log!(
            self,
            "qp{qp} posts {} {:?}+{} fence {} fault {:?} inbox {inbox:?}",
            self.qps[qp].flow.ops.len(),
            op.verb,
            op.len,
            op.fence,
            op.fault
        );
        let flags = Flags {
            signaled: op.signaled,
            solicited: op.solicited,
            fence: op.fence,
        };
        let send_op = match op.verb {
            Verb::Send => SendOp::Send,
            Verb::SendImm => SendOp::SendImm(op.imm),
            Verb::SendInv => SendOp::SendInv(op.inv),
            Verb::Write => SendOp::Write,
            Verb::WriteImm => SendOp::WriteImm(op.imm),
            Verb::Read => SendOp::Read,
            Verb::CompareSwap { compare, swap } => SendOp::CompareSwap { compare, swap },
            Verb::FetchAdd { add } => SendOp::FetchAdd { add },
            Verb::AtomicWrite => SendOp::AtomicWrite,
            Verb::Flush {
                placement,
                level,
                range,
            } => send_flush(placement, level, range),
            Verb::Local(_) => SendOp::Local,
        };
        let request = match op.fault {
            Some(Fault::Unfit(status)) => Request::with_local_error(status),
            _ => Request::new(send_op, op.len, op.va, op.rkey, flags),
        };
        let unusable = matches!(op.fault, Some(Fault::Unreadable | Fault::Unplaceable));
        let q = &mut self.qps[qp];
        q.send.slots.push(SendSlot {
            unusable,
            keys: op.keys,
            unfinishable: op.fault == Some(Fault::Unfinishable),
            ..SendSlot::new(request, op.local, op.len)
        });
        let consumes = op.verb.consumes();
        q.flow.post(op, inbox);
        if consumes {
            let count = q.flow.consuming.len();
            let peer = q.peer;
            let delay = self.programs().draw_receive_delay();
            self.after(delay, Event::Receives { qp: peer, count });
            // Another message may take a shared receive before the one that it was posted for does.
            if delay == 0 || self.plan.srq {
                self.fill_receives(peer, count);
            }
            if delay == 0 {
                self.fill_shared(peer, count);
            }
        }
        self.allow_for(qp, 2 * MS);
    }

    /// The receives that the first `count` consuming requests of the peer need are posted.
    pub fn post_receives(&mut self, qp: usize, count: usize) -> Result<(), Violation> {
        self.fill_receives(qp, count);
        self.fill_shared(qp, count);
        if self.qps[qp].fate.dead {
            return self.flush_receives(qp);
        }
        Ok(())
    }

    /// As many receives are posted to the shared receive queue.
    fn fill_shared(&mut self, qp: usize, count: usize) {
        let q = &mut self.qps[qp];
        if let Some(srq) = &mut self.hosts[q.host].srq {
            srq.posted += count.saturating_sub(q.recv.shared);
            q.recv.shared = q.recv.shared.max(count);
        }
    }

    fn fill_receives(&mut self, qp: usize, count: usize) {
        while self.qps[qp].recv.slots.len() < count {
            let slot = self.programs().draw_receive(qp);
            self.qps[qp].recv.slots.push(slot);
        }
    }
}
