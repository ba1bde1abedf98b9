// SPDX-License-Identifier: GPL-2.0

//! The programs behind UC QPs.

use crate::api::*;
use crate::check::Violation;
use crate::host::queues::SendSlot;
use crate::judge::stats::uc::Observation;
use crate::log::tell;
use crate::model::uc::{Action, Fault, Flaw, Message, Phase, Verb};
use crate::profile::US;
use crate::run::world::World;
use oxe_proto::transport::LOOPBACK_MTU;

impl World {
    /// Processes an event of a UC QP.
    pub fn uc_step(&mut self, end: usize, action: Action) -> Result<(), Violation> {
        match action {
            Action::Tick => self.uc_tick(end),
            Action::Pump => {
                self.uc.ends[end].pump_at = None;
                self.pump_uc(end)
            }
            Action::Copy => self.copy_uc(end),
            Action::Connect => {
                let count = self.uc_receives_due(end);
                self.uc_post_receives(end, count)?;
                self.uc_connect(end)
            }
            Action::Ready => self.uc_ready(end),
            Action::Reset => match self.uc.ends[end].phase {
                Phase::Dead => self.uc_reset(end),
                _ => Ok(()),
            },
        }
    }

    /// How many receives the program posts when it connects: enough for all messages of its peer,
    /// or a few.
    fn uc_receives_due(&mut self, end: usize) -> u64 {
        let peer = &self.uc.ends[self.uc.ends[end].peer];
        let open = (peer.flow.messages.len() - peer.flow.completed) as u64;
        match self.uc.habits.scarce {
            true => self.rng.below(4),
            false => peer.todo + open,
        }
    }

    /// The program does something, and will do something again.
    fn uc_tick(&mut self, end: usize) -> Result<(), Violation> {
        let habits = self.uc.habits;
        if self.rng.chance(habits.change) {
            self.uc_change(end)?;
        }
        if self.rng.chance(habits.pause) {
            self.uc_pause(end)?;
        }
        if self.rng.chance(habits.kill) {
            self.uc_kill(end)?;
        }
        if self.rng.chance(habits.reset) {
            self.uc_reset(end)?;
        }
        let phase = self.uc.ends[end].phase;
        if habits.scarce && phase != Phase::Down {
            let count = self.rng.below(4);
            self.uc_post_receives(end, count)?;
        }
        if !matches!(phase, Phase::Down | Phase::Half) {
            let count = self.rng.range(1, self.plan.batch.min(16));
            for _ in 0..count.min(self.uc.ends[end].todo) {
                self.uc.ends[end].todo -= 1;
                self.uc_post(end);
            }
            self.pump_uc(end)?;
        }
        if self.uc.ends[end].todo != 0 {
            let rest = self.rng.below(self.plan.rest.min(200 * US));
            self.uc_later(end, rest + US, Action::Tick);
        }
        Ok(())
    }

    /// The program posts a request.
    pub fn uc_post(&mut self, end: usize) {
        let message = self.uc_draw(end);
        let kind = (message.verb, message.len(), message.fault);
        tell!(self, "uc{end} posts {kind:?}");
        self.uc_count(Observation::Posted);
        let e = &mut self.uc.ends[end];
        let slot = SendSlot::new(message.request(), message.at, message.len());
        e.send.slots.push(slot);
        e.flow.messages.push(message);
    }

    fn uc_draw(&mut self, end: usize) -> Message {
        let habits = self.uc.habits;
        let e = &self.uc.ends[end];
        let (host, pmtu, max) = (e.host, e.pmtu, e.max_len);
        let rng = &mut self.rng;
        let verb = match rng.chance(habits.local) {
            true => Verb::Local {
                rekeys: habits.bad_key != 0 && rng.one_in(3),
            },
            false => rng.pick(&[Verb::Send, Verb::Write]),
        };
        let local = matches!(verb, Verb::Local { .. });
        let len = match rng.below(8) {
            _ if local => 0,
            0 => 0,
            1 => u64::from(pmtu) - 1 + rng.below(3),
            2 => u64::from(pmtu) * rng.below(4),
            3 => max,
            _ => rng.below(max + 1),
        };
        let len = len.min(max) as usize;
        let memory = &mut self.hosts[host].memory;
        let at = memory.alloc(len, rng);
        let data = memory.read(at, len).to_vec();
        let mut message = Message::new(verb, pmtu, at, data);
        message.imm = (!local && rng.one_in(2)).then(|| rng.next_u32().to_be_bytes());
        message.signaled = rng.one_in(2);
        message.solicited = !local && rng.one_in(3);
        if rng.chance(habits.fault) {
            message.fault = self.uc_draw_fault(&message);
        }
        if verb == Verb::Write {
            self.uc_draw_target(end, &mut message);
        }
        if !local && self.rng.chance(habits.flaw) {
            message.flaw = self.uc_draw_flaw(end, &message);
            if message.flaw.is_some() {
                self.uc_count(Observation::Flawed);
            }
        }
        message
    }

    /// Something wrong with the packets of the message.
    fn uc_draw_flaw(&mut self, end: usize, message: &Message) -> Option<Flaw> {
        let e = &self.uc.ends[end];
        let peer = &self.uc.ends[e.peer];
        let inbox = &self.hosts[peer.host].regions.0[peer.inbox];
        let (span, len) = (message.span, message.len());
        // The key permits one byte more, so that the length alone is wrong.
        let after = message.place.map(|at| at + message.data.len());
        let room = after.is_some_and(|after| after < inbox.at + inbox.len);
        let rng = &mut self.rng;
        match rng.below(5) {
            0 | 1 if span > 1 => Some(Flaw::Short(rng.below(u64::from(span) - 1) as u32)),
            2 if span > 1 => Some(Flaw::Empty),
            3 if e.pmtu != LOOPBACK_MTU => Some(Flaw::Long),
            _ if message.verb != Verb::Write => None,
            _ if room && rng.one_in(2) => Some(Flaw::Length(len + 1)),
            _ if len > 0 => Some(Flaw::Length(len - 1)),
            _ => None,
        }
    }

    fn uc_draw_fault(&mut self, message: &Message) -> Option<Fault> {
        let rng = &mut self.rng;
        if message.is_local() {
            return Some(Fault::Unbindable);
        }
        let operation = rng.pick(&[
            SendOp::Read,
            SendOp::SendInv(7),
            SendOp::FetchAdd { add: 1 },
            SendOp::CompareSwap {
                compare: 0,
                swap: 1,
            },
        ]);
        let len = u64::from(message.len());
        match rng.below(6) {
            0 => Some(Fault::Posted),
            1 => Some(Fault::Unsupported(operation)),
            2 => Some(Fault::TooLong),
            _ if len == 0 => None,
            _ => Some(Fault::Unreadable(rng.below(len) as usize)),
        }
    }

    /// The memory that a WRITE goes to: that of the peer which is for this, or another.
    fn uc_draw_target(&mut self, end: usize, message: &mut Message) {
        let peer = &self.uc.ends[self.uc.ends[end].peer];
        let regions = &self.hosts[peer.host].regions.0;
        let rng = &mut self.rng;
        let (inbox, len) = (&regions[peer.inbox], message.data.len());
        let offset = rng.below((inbox.len - len) as u64 + 1);
        let bad = rng.chance(self.uc.habits.bad_key);
        match rng.below(4) {
            0 if bad => {
                message.rkey = rng.next_u32();
                message.va = inbox.va;
            }
            1 if bad => {
                message.rkey = inbox.rkey;
                let beyond = inbox.len as u64 + 1 - len as u64 + offset;
                message.va = inbox.va.wrapping_add(beyond);
            }
            _ if bad => {
                let other = &regions[peer.read_only];
                (message.rkey, message.va) = (other.rkey, other.va);
            }
            _ => {
                message.rkey = inbox.rkey;
                message.va = inbox.va.wrapping_add(offset);
                message.place = Some(inbox.at + offset as usize);
            }
        }
    }
}
