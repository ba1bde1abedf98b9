// SPDX-License-Identifier: GPL-2.0

//! The requests that programs post, and the receives for them.

use super::placement::flush_global;
use super::{Post, Programs};
use crate::host::memory::Right;
use crate::host::queues::RecvSlot;
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::{Local, Verb};
use crate::profile::MS;

impl Programs<'_> {
    /// The next request.
    pub fn draw(&mut self, qp: usize) -> Post {
        let number = self.qps[qp].flow.ops.len() as u64;
        let post = if self.qps[qp].fault_at == Some(number) {
            self.draw_faulty(qp)
        } else if let Some(local) = self.draw_local(qp) {
            local
        } else {
            self.draw_op(qp)
        };
        self.qps[qp].todo -= 1;
        post
    }

    /// A request that will never be sent.
    pub fn draw_late(&mut self, qp: usize) -> Post {
        let local = self.plan.local && !self.qps[qp].conn.is_foreign() && self.rng.one_in(2);
        let verb = match local {
            true => Verb::Local(Local::Bind),
            false => Verb::Send,
        };
        self.draw_of(qp, verb)
    }

    /// The next receive of a QP: it fits the request of the peer that will meet it.
    pub fn draw_receive(&mut self, qp: usize) -> RecvSlot {
        let q = &self.qps[qp];
        let flow = &self.qps[q.peer].flow;
        let op = flow
            .consuming
            .get(q.recv.slots.len())
            .map(|index| &flow.ops[*index]);
        let slack = if self.rng.one_in(2) {
            0
        } else {
            self.rng.below(40) as u32
        };
        let cap = match op {
            Some(op) if op.fault == Some(Fault::TooLong) => op.len - 1 - slack.min(op.len - 1),
            Some(op) if op.verb == Verb::WriteImm => slack,
            Some(op) => op.len + slack,
            None => slack,
        };
        let garbage = op.is_some_and(|op| op.fault == Some(Fault::BrokenReceive));
        let memory = &mut self.hosts[q.host].memory;
        RecvSlot {
            at: memory.alloc(cap as usize, self.rng),
            cap,
            garbage,
            unusable: false,
            done: None,
        }
    }

    /// How much later than a request the receive for it is posted, ns.
    pub fn draw_receive_delay(&mut self) -> u64 {
        let late = self.plan.late_receives && self.rng.one_in(3);
        match late {
            true => self.rng.below(2 * MS),
            false => 0,
        }
    }

    /// A length in bytes, at most `most`: often one at a boundary.
    pub fn draw_len(&mut self, pmtu: u32, most: usize) -> u32 {
        let rng = &mut *self.rng;
        let pmtu = u64::from(pmtu);
        let len = match rng.below(12) {
            0 => 0,
            1..=3 => rng.range(1, 64),
            4 => pmtu * rng.range(1, 4) + rng.range(0, 2) - 1,
            5..=6 => rng.range(1, 8 * pmtu),
            7 => pmtu * rng.range(1, 8),
            _ => rng.range(1, 2 * pmtu),
        };
        if rng.chance(self.plan.huge) {
            return rng.range(100 * pmtu, 600 * pmtu).min(most as u64) as u32;
        }
        len.min(most as u64) as u32
    }

    /// A request without address, data or fault.
    pub fn blank(&mut self, verb: Verb, len: u32) -> Op {
        let rng = &mut *self.rng;
        Op {
            va: rng.next(), // of no meaning unless set later
            rkey: rng.next_u32(),
            imm: rng.next_u32().to_be_bytes(),
            signaled: rng.one_in(2),
            solicited: rng.one_in(4),
            fence: rng.one_in(8),
            ..Op::new(verb, len)
        }
    }

    /// A verb that the peer allows; sends are always allowed.
    pub fn draw_verb(&mut self, qp: usize) -> Verb {
        let access = self.qps[self.qps[qp].peer].setup.access;
        let rng = &mut *self.rng;
        match rng.below(12) {
            0 | 1 => Verb::Send,
            2 => Verb::SendImm,
            3 if rng.one_in(2) => Verb::SendInv,
            3 | 4 if access.write => Verb::Write,
            5 if access.write => Verb::WriteImm,
            6 | 7 if access.read => Verb::Read,
            8 if access.atomic => Verb::CompareSwap {
                compare: rng.next(),
                swap: rng.next(),
            },
            9 if access.atomic => Verb::FetchAdd { add: rng.next() },
            10 if access.write => Verb::AtomicWrite,
            11 if access.flush_global => flush_global(rng),
            _ => Verb::Send,
        }
    }

    /// A request that must succeed, and the place in the inbox that it is about.
    fn draw_op(&mut self, qp: usize) -> Post {
        let verb = self.draw_verb(qp);
        self.draw_of(qp, verb)
    }

    /// A request of this verb that must succeed.
    pub fn draw_of(&mut self, qp: usize, verb: Verb) -> Post {
        match verb {
            Verb::Send | Verb::SendImm | Verb::SendInv => (self.draw_send(qp, verb), None),
            Verb::Write | Verb::WriteImm => self.draw_write(qp, verb),
            Verb::Read => self.draw_read(qp),
            Verb::Local(local) => (self.blank_local(local), None),
            Verb::AtomicWrite => self.draw_atomic_write(qp),
            Verb::Flush { level, .. } => (self.draw_flush(qp, level), None),
            _ => self.draw_atomic(qp, verb),
        }
    }

    /// Gives the request `len` bytes of data from the QP's host.
    pub fn load(&mut self, qp: usize, op: &mut Op) {
        let host = &self.hosts[self.qps[qp].host];
        let source = &host.regions.0[host.source];
        let len = op.len as usize;
        op.local = source.at + self.rng.index(source.len - len + 1);
        op.data = host.memory.read(op.local, len).to_vec();
    }

    fn draw_send(&mut self, qp: usize, verb: Verb) -> Op {
        let host = &self.hosts[self.qps[qp].host];
        let most = host.regions.0[host.source].len;
        let len = self.draw_len(self.qps[qp].flow.pmtu, most);
        let mut op = self.blank(verb, len);
        self.load(qp, &mut op);
        if verb == Verb::SendInv {
            let peer = &mut self.hosts[self.qps[self.qps[qp].peer].host];
            let at = peer.memory.alloc(64, self.rng);
            let region = peer.regions.add(at, 64, &[Right::Write], self.rng);
            op.inv = peer.regions.0[region].rkey;
        }
        op
    }

    /// A place in the inbox, aligned to `align`: mostly one near those of other requests.
    pub fn place(&mut self, qp: usize, op: &mut Op, align: usize) -> usize {
        let q = &self.qps[qp];
        let region = &self.hosts[self.qps[q.peer].host].regions.0[q.inbox_region];
        let room = q.flow.inbox_len() - op.len as usize;
        let near = room.min(64);
        let at = match self.rng.below(6) {
            0 | 1 => self.rng.index(room + 1),
            // The end is for atomics, mostly.
            2..=4 if align == 8 => room - self.rng.index(near + 1),
            _ => self.rng.index(near + 1),
        };
        let mut at = at / align * align;
        // An empty range behind the last address there is would begin at address 0.
        if region.va.checked_add(at as u64).is_none() {
            at -= align;
        }
        op.va = region.va.wrapping_add(at as u64);
        op.rkey = region.rkey;
        at
    }

    fn draw_write(&mut self, qp: usize, verb: Verb) -> Post {
        let most = self.qps[qp].flow.inbox_len();
        let len = self.draw_len(self.qps[qp].flow.pmtu, most);
        let mut op = self.blank(verb, len);
        self.load(qp, &mut op);
        let at = self.place(qp, &mut op, 1);
        if len == 0 && self.rng.one_in(2) {
            // The key of an empty WRITE is not checked.
            op.rkey = self.rng.next_u32();
        }
        (op, Some(at))
    }

    fn draw_read(&mut self, qp: usize) -> Post {
        let from_inbox = self.rng.one_in(2);
        let peer = &self.hosts[self.qps[self.qps[qp].peer].host];
        let source = peer.regions.0[peer.source].clone();
        let most = if from_inbox {
            self.qps[qp].flow.inbox_len()
        } else {
            source.len
        };
        let len = self.draw_len(self.qps[qp].flow.pmtu, most);
        let mut op = self.blank(Verb::Read, len);
        let mut inbox = None;
        if from_inbox {
            inbox = Some(self.place(qp, &mut op, 1));
        } else {
            let at = self.rng.index(source.len - len as usize + 1);
            op.va = source.va.wrapping_add(at as u64);
            op.rkey = source.rkey;
            let peer = &self.hosts[self.qps[self.qps[qp].peer].host];
            op.data = peer.memory.read(source.at + at, len as usize).to_vec();
        }
        self.give_sink(qp, &mut op);
        (op, inbox)
    }

    /// Allocates memory for the response.
    pub fn give_sink(&mut self, qp: usize, op: &mut Op) {
        let memory = &mut self.hosts[self.qps[qp].host].memory;
        op.local = memory.alloc(op.len as usize, self.rng);
    }

    fn draw_atomic(&mut self, qp: usize, verb: Verb) -> Post {
        let mut op = self.blank(verb, 8);
        let at = self.place(qp, &mut op, 8);
        if let (Verb::CompareSwap { compare, .. }, true) = (&mut op.verb, self.rng.one_in(2)) {
            let word = self.qps[qp].flow.image()[at..at + 8].try_into();
            *compare = word.map_or(0, u64::from_ne_bytes);
        }
        self.give_sink(qp, &mut op);
        (op, Some(at))
    }
}
