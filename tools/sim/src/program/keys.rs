// SPDX-License-Identifier: GPL-2.0

//! Fast-registered regions, whose keys live and die (IBTA 10.6.5, 10.6.7.2.6).
//!
//! The program at an end of a connection registers a part of its peer's inbox by a REG_MR, each
//! time under a new key with new bounds, and describes it to the peer by a SEND after that. The
//! peer's requests use the key until a SEND with invalidate ends it, or until a SEND says that the
//! peer is done. Then the owner ends it by a LOCAL_INV or a READ with invalidate. The peer's last
//! message is fenced, so that no READ is open. So there is one right result for each access: what
//! comes after the end is refused.

use super::{Post, Programs};
use crate::model::fault::Fault;
use crate::model::key::{Fast, FastReg, Note, Phase};
use crate::model::op::Op;
use crate::model::verb::{Local, Verb};

impl Programs<'_> {
    /// The next step in the life of a key, if there is one.
    pub fn draw_keyed(&mut self, qp: usize) -> Option<Post> {
        if self.rng.one_in(2) {
            let step = self.draw_owner(qp);
            if step.is_some() {
                return step;
            }
        }
        self.draw_user(qp)
    }

    /// The owner's next step.
    fn draw_owner(&mut self, qp: usize) -> Option<Post> {
        let index = self.qps[qp].fast.index?;
        let reads = self.qps[self.qps[qp].peer].setup.access.read;
        let (op, next) = match self.qps[qp].fast.phase {
            Phase::None => {
                let reg = self.draw_registration(qp, index);
                let op = self.blank_local(Local::Register(reg));
                (op, Phase::Registered(reg))
            }
            Phase::Registered(reg) => {
                let op = self.draw_note(qp, Note::Granted(reg));
                (op, Phase::Granted(reg))
            }
            Phase::Granted(_) => return None,
            Phase::Returned(reg) if reads && self.rng.one_in(2) => {
                return Some(self.draw_last_read(qp, reg));
            }
            Phase::Returned(reg) => {
                let op = self.blank_local(Local::Invalidate(reg.rkey));
                (op, Phase::Ended(reg, false))
            }
            Phase::Read(reg) => {
                let mut op = self.blank_local(Local::Invalidate(reg.rkey));
                op.fence = true;
                (op, Phase::Ended(reg, false))
            }
            Phase::Ended(_, _) if self.rng.one_in(3) => {
                self.qps[qp].fast.phase = Phase::None;
                return None;
            }
            Phase::Ended(reg, fenced) => {
                let mut op = self.draw_note(qp, Note::Gone(reg));
                op.fence |= fenced;
                (op, Phase::None)
            }
        };
        self.qps[qp].fast.phase = next;
        Some((op, None))
    }

    /// A part of the inbox on this QP's host, under a new key.
    fn draw_registration(&mut self, qp: usize, index: u32) -> FastReg {
        let q = &mut self.qps[qp];
        let low = q.fast.low;
        q.fast.low = low.wrapping_add(1);
        let inbox = self.qps[self.qps[qp].peer].flow.inbox_len();
        let rng = &mut *self.rng;
        let offset = match rng.below(2) {
            0 => 0,
            _ => rng.index(inbox / 2) & !7,
        };
        FastReg {
            rkey: (index << 8) | u32::from(low),
            va: (rng.next() >> rng.below(32)).min(u64::MAX / 2) & !7,
            offset,
            len: rng.range(64, (inbox - offset) as u64) as usize,
        }
    }

    /// A SEND with a note to the peer's program.
    fn draw_note(&mut self, qp: usize, note: Note) -> Op {
        let verb = self.rng.pick(&[Verb::Send, Verb::SendImm]);
        let (mut op, _) = self.draw_of(qp, verb);
        op.keys.note = Some(note);
        op
    }

    /// A READ into memory of the key. It ends the key, or a fenced LOCAL_INV follows.
    fn draw_last_read(&mut self, qp: usize, reg: FastReg) -> Post {
        let (mut op, inbox) = self.draw_of(qp, Verb::Read);
        op.keys.lkey = Some(reg.rkey);
        op.keys.ends = self.rng.one_in(2);
        let ended = Phase::Ended(reg, true);
        self.qps[qp].fast.phase = if op.keys.ends {
            ended
        } else {
            Phase::Read(reg)
        };
        (op, inbox)
    }

    /// The next step of the one who uses the peer's key.
    fn draw_user(&mut self, qp: usize) -> Option<Post> {
        let q = &self.qps[qp];
        let (peer_key, ended_key) = (q.fast.peer_key, q.fast.ended_key);
        let may_fail = self.plan.fault != 0 && q.flow.doomed.is_none();
        if ended_key.is_some() && may_fail && self.rng.one_in(8) {
            return self.draw_misuse(qp);
        }
        let reg = peer_key?;
        match self.rng.below(8) {
            0 => {
                let (mut op, _) = self.draw_of(qp, Verb::Send);
                (op.verb, op.inv) = (Verb::SendInv, reg.rkey);
                op.fence = true;
                let fast = &mut self.qps[qp].fast;
                (fast.peer_key, fast.ended_key) = (None, Some(reg));
                Some((op, None))
            }
            1 => {
                let mut op = self.draw_note(qp, Note::Done);
                op.fence = true;
                self.qps[qp].fast.peer_key = None;
                Some((op, None))
            }
            _ => self.draw_use(qp, &reg),
        }
    }

    /// A request that uses the key, if one is drawn that needs any.
    fn draw_use(&mut self, qp: usize, reg: &FastReg) -> Option<Post> {
        let verb = self.draw_verb(qp);
        let is_word = verb.is_atomic() || verb == Verb::AtomicWrite;
        let len = match verb {
            _ if is_word => 8,
            _ => self.draw_len(self.qps[qp].flow.pmtu, reg.len),
        };
        let mut op = self.blank(verb, len);
        if !op.names_region() {
            return None;
        }
        let align = if is_word { 8 } else { 1 };
        let within = self.rng.index(reg.len - len as usize + 1) / align * align;
        op.va = reg.va + within as u64;
        op.rkey = reg.rkey;
        if let Verb::Flush { range, .. } = &mut op.verb {
            *range = len;
            op.len = 0;
            self.qps[qp].fast.used += 1;
            return Some((op, None));
        }
        if verb.brings_data() {
            self.give_sink(qp, &mut op);
        } else {
            self.load(qp, &mut op);
        }
        self.qps[qp].fast.used += 1;
        Some((op, Some(reg.offset + within)))
    }

    /// A request that uses a key which has ended, or one beyond its bounds, if there is any.
    pub fn draw_misuse(&mut self, qp: usize) -> Option<Post> {
        let Fast {
            peer_key,
            ended_key,
            ..
        } = self.qps[qp].fast;
        let reg = ended_key.or(peer_key)?;
        let (mut op, _) = self.draw_use(qp, &reg).filter(|(op, _)| op.len != 0)?;
        if ended_key.is_none() {
            op.va = match self.rng.below(2) {
                0 => reg.va.wrapping_sub(8),
                _ => reg.va + reg.len.next_multiple_of(8) as u64,
            };
        }
        self.qps[qp].fast.misused += u64::from(ended_key.is_some());
        op.fault = Some(Fault::NotEnabled);
        Some((op, None))
    }

    /// The program behind a QP has received request `index` of the peer. Gives whether that has
    /// ended the program's key.
    pub fn heed(&mut self, qp: usize, index: usize) -> bool {
        let op = &self.qps[self.qps[qp].peer].flow.ops[index];
        let ended = (op.verb == Verb::SendInv).then_some(op.inv);
        let note = op.keys.note;
        let fast = &mut self.qps[qp].fast;
        match (note, fast.phase) {
            (Some(Note::Granted(reg)), _) => fast.peer_key = Some(reg),
            (Some(Note::Gone(reg)), _) => fast.ended_key = Some(reg),
            (Some(Note::Done), Phase::Granted(reg)) => fast.phase = Phase::Returned(reg),
            (None, Phase::Granted(reg)) if ended == Some(reg.rkey) => {
                fast.phase = Phase::None;
                return true;
            }
            _ => {}
        }
        false
    }

    /// A QP is reset: its program takes the region's keys away.
    pub fn forget_keys(&mut self, qp: usize) {
        let q = &mut self.qps[qp];
        let fast = std::mem::take(&mut q.fast);
        (q.fast.index, q.fast.low) = (fast.index, fast.low);
        let Some(index) = fast.index else { return };
        let regions = self.hosts[q.host].regions.0.iter_mut();
        for region in regions.filter(|r| r.rkey >> 8 == index) {
            region.valid = false;
        }
    }
}
