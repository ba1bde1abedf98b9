// SPDX-License-Identifier: GPL-2.0

//! The programs behind UC QPs.

use crate::api::SendOp;
use crate::host::machine::Host;
use crate::host::queues::RecvSlot;
use crate::host::uc::End;
use crate::model::uc::{Fault, Flaw, Message, Phase, Verb};
use crate::profile::uc::Habits;
use crate::profile::{Plan, US};
use crate::rng::Rng;
use oxe_proto::transport::LOOPBACK_MTU;

/// What a program does with its QP.
pub enum Action {
    /// Permits WRITEs, or does not any more.
    Change,
    /// Drains the send queue.
    Pause,
    /// Moves the QP to error.
    Kill,
    /// Resets the QP.
    Reset,
    /// Posts so many receives.
    Receives(u64),
    /// Posts a request.
    Post(Message),
    /// Rings the doorbell.
    Ring,
    /// Rests for so long, ns; another turn follows.
    Rest(u64),
}

enum Step {
    Change,
    Pause,
    Kill,
    Reset,
    Receives,
    Begin,
    Post(u64),
    Rest,
    Done,
}

/// A turn of a program, step by step: each is drawn when those before it are carried out.
pub struct Turn {
    end: usize,
    step: Step,
}

impl Turn {
    /// The turn of the program behind a QP.
    pub fn new(end: usize) -> Turn {
        let step = Step::Change;
        Turn { end, step }
    }

    /// The next action.
    pub fn next(&mut self, programs: &mut UcPrograms) -> Option<Action> {
        let (end, habits) = (self.end, *programs.habits);
        loop {
            let (chance, act, next) = match self.step {
                Step::Change => (habits.change, Action::Change, Step::Pause),
                Step::Pause => (habits.pause, Action::Pause, Step::Kill),
                Step::Kill => (habits.kill, Action::Kill, Step::Reset),
                Step::Reset => (habits.reset, Action::Reset, Step::Receives),
                Step::Receives => {
                    self.step = Step::Begin;
                    if habits.scarce && programs.ends[end].phase != Phase::Down {
                        return Some(Action::Receives(programs.rng.below(4)));
                    }
                    continue;
                }
                Step::Begin => {
                    self.step = match programs.ends[end].phase {
                        Phase::Down | Phase::Half => Step::Rest,
                        _ => Step::Post(programs.draw_batch(end)),
                    };
                    continue;
                }
                Step::Post(0) => {
                    self.step = Step::Rest;
                    return Some(Action::Ring);
                }
                Step::Post(count) => {
                    self.step = Step::Post(count - 1);
                    programs.ends[end].todo -= 1;
                    return Some(Action::Post(programs.draw(end)));
                }
                Step::Rest => {
                    self.step = Step::Done;
                    return programs.draw_rest(end).map(Action::Rest);
                }
                Step::Done => return None,
            };
            self.step = next;
            if programs.rng.chance(chance) {
                return Some(act);
            }
        }
    }
}

/// The programs behind all UC QPs, with what they draw from.
pub struct UcPrograms<'a> {
    pub plan: &'a Plan,
    pub habits: &'a Habits,
    pub rng: &'a mut Rng,
    pub hosts: &'a mut [Host],
    pub ends: &'a mut [End],
}

impl UcPrograms<'_> {
    /// How many requests a turn posts.
    fn draw_batch(&mut self, end: usize) -> u64 {
        let count = self.rng.range(1, self.plan.batch.min(16));
        count.min(self.ends[end].todo)
    }

    /// How long the program rests, ns, if it has anything left to do.
    fn draw_rest(&mut self, end: usize) -> Option<u64> {
        if self.ends[end].todo == 0 {
            return None;
        }
        Some(self.rng.below(self.plan.rest.min(200 * US)) + US)
    }

    /// How many receives the program posts when it connects: enough for all messages of its peer,
    /// or a few.
    pub fn draw_receives_due(&mut self, end: usize) -> u64 {
        let peer = &self.ends[self.ends[end].peer];
        let open = (peer.flow.messages.len() - peer.flow.completed) as u64;
        match self.habits.scarce {
            true => self.rng.below(4),
            false => peer.todo + open,
        }
    }

    /// A receive.
    pub fn draw_receive(&mut self, end: usize) -> RecvSlot {
        let (host, max) = (self.ends[end].host, self.ends[end].max_len);
        let cap = match self.rng.chance(self.habits.short) {
            true => self.rng.below(max),
            false => max,
        };
        RecvSlot {
            at: self.hosts[host].memory.alloc(cap as usize, self.rng),
            cap: cap as u32,
            garbage: self.rng.chance(self.habits.unusable),
            unusable: self.rng.chance(self.habits.unusable),
            done: None,
        }
    }

    /// The next request.
    pub fn draw(&mut self, end: usize) -> Message {
        let habits = *self.habits;
        let e = &self.ends[end];
        let (host, pmtu, max) = (e.host, e.pmtu, e.max_len);
        let rng = &mut *self.rng;
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
            message.fault = self.draw_fault(&message);
        }
        if verb == Verb::Write {
            self.draw_target(end, &mut message);
        }
        if !local && self.rng.chance(habits.flaw) {
            message.flaw = self.draw_flaw(end, &message);
        }
        message
    }

    /// Something wrong with the packets of the message.
    fn draw_flaw(&mut self, end: usize, message: &Message) -> Option<Flaw> {
        let e = &self.ends[end];
        let peer = &self.ends[e.peer];
        let inbox = &self.hosts[peer.host].regions.0[peer.inbox];
        let (span, len) = (message.span, message.len());
        // The key permits one byte more, so that the length alone is wrong.
        let after = message.place.map(|at| at + message.data.len());
        let room = after.is_some_and(|after| after < inbox.at + inbox.len);
        let rng = &mut *self.rng;
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

    fn draw_fault(&mut self, message: &Message) -> Option<Fault> {
        let rng = &mut *self.rng;
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
    fn draw_target(&mut self, end: usize, message: &mut Message) {
        let peer = &self.ends[self.ends[end].peer];
        let regions = &self.hosts[peer.host].regions.0;
        let rng = &mut *self.rng;
        let (inbox, len) = (&regions[peer.inbox], message.data.len());
        let offset = rng.below((inbox.len - len) as u64 + 1);
        let bad = rng.chance(self.habits.bad_key);
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
