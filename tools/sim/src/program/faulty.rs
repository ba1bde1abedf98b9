// SPDX-License-Identifier: GPL-2.0

//! Requests that must fail, each for one reason.

use super::placement::flush_global;
use super::{Post, Programs};
use crate::api::Status;
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::{Local, Verb};

const FAULTS: [Fault; 14] = [
    Fault::NotEnabled,
    Fault::NotEnabled,
    Fault::Disallowed,
    Fault::Misaligned,
    Fault::TooLong,
    Fault::Lie,
    Fault::BrokenReceive,
    Fault::RemoteDefect,
    Fault::Unfit(Status::LocProt),
    Fault::Unfit(Status::LocLen),
    Fault::Unreadable,
    Fault::Unplaceable,
    Fault::ReadFails,
    Fault::Reserved,
];

/// Whether it is about an aligned word.
fn is_word(verb: Verb) -> bool {
    verb.is_atomic() || verb == Verb::AtomicWrite
}

impl Programs<'_> {
    /// A request that must fail, and the place in the inbox which it may change all the same.
    pub fn draw_faulty(&mut self, qp: usize) -> Post {
        if self.plan.local {
            if let Some(refused) = self.draw_misuse(qp) {
                return refused;
            }
        }
        if self.plan.local && !self.qps[qp].conn.is_foreign() && self.rng.one_in(4) {
            return self.draw_faulty_local(qp);
        }
        let fault = self.rng.pick(&FAULTS);
        let (verb, fault) = self.verb_for(qp, fault);
        // Most faults need a message that is not empty.
        let (mut op, inbox) = loop {
            let drawn = self.draw_of(qp, verb);
            if drawn.0.len != 0 || matches!(verb, Verb::Flush { .. }) {
                break drawn;
            }
        };
        self.spoil(qp, &mut op, fault);
        op.fault = Some(fault);
        // A request that the responder refuses changes nothing.
        let traces = matches!(
            fault,
            Fault::BrokenReceive | Fault::Lie | Fault::Unreadable | Fault::Unplaceable
        );
        (op, inbox.filter(|_| traces))
    }

    /// A request that cannot be carried out at this side: a local operation, or a READ that fails
    /// when it is whole.
    fn draw_faulty_local(&mut self, qp: usize) -> Post {
        let reads = self.qps[self.qps[qp].peer].setup.access.read;
        let (verb, fault) = match reads && self.rng.one_in(2) {
            true => (Verb::Read, Fault::Unfinishable),
            false => (Verb::Local(Local::Bind), Fault::Unbindable),
        };
        let (mut op, inbox) = self.draw_of(qp, verb);
        op.fault = Some(fault);
        (op, inbox)
    }

    /// A verb that can have this fault; another fault if there is none.
    fn verb_for(&mut self, qp: usize, fault: Fault) -> (Verb, Fault) {
        let access = self.qps[self.qps[qp].peer].setup.access;
        let allowed = |verb: &Verb| match verb {
            Verb::Write | Verb::WriteImm | Verb::AtomicWrite => access.write,
            Verb::Flush { .. } => access.flush_global,
            Verb::Read => access.read,
            Verb::CompareSwap { .. } | Verb::FetchAdd { .. } => access.atomic,
            _ => true,
        };
        let swap = Verb::CompareSwap {
            compare: self.rng.next(),
            swap: self.rng.next(),
        };
        let add = Verb::FetchAdd {
            add: self.rng.next(),
        };
        let all = [
            Verb::Send,
            Verb::SendImm,
            Verb::SendInv,
            Verb::Write,
            Verb::WriteImm,
            Verb::Read,
            swap,
            add,
            Verb::AtomicWrite,
            flush_global(self.rng),
        ];
        let fits = |verb: &&Verb| match fault {
            Fault::NotEnabled => !matches!(verb, Verb::Send | Verb::SendImm) && allowed(verb),
            Fault::Disallowed => !allowed(verb),
            Fault::Misaligned => is_word(**verb) && allowed(verb),
            Fault::TooLong => verb.consumes() && **verb != Verb::WriteImm,
            Fault::BrokenReceive => verb.consumes() && allowed(verb),
            Fault::RemoteDefect => {
                !matches!(verb, Verb::Send | Verb::SendImm | Verb::SendInv) && allowed(verb)
            }
            Fault::Unfit(_) => allowed(verb),
            Fault::Lie => {
                matches!(verb, Verb::Write | Verb::WriteImm | Verb::AtomicWrite) && allowed(verb)
            }
            Fault::Reserved => matches!(verb, Verb::Flush { .. }) && allowed(verb),
            Fault::TooMany | Fault::Unbindable | Fault::Unfinishable => false,
            Fault::Unreadable => verb.carries_data() && allowed(verb),
            Fault::Unplaceable => verb.brings_data() && allowed(verb),
            Fault::ReadFails => **verb == Verb::Read && allowed(verb),
        };
        let fitting: Vec<Verb> = all.iter().filter(fits).copied().collect();
        if fitting.is_empty() {
            return (Verb::Send, Fault::TooLong);
        }
        (self.rng.pick(&fitting), fault)
    }

    fn spoil(&mut self, qp: usize, op: &mut Op, fault: Fault) {
        if matches!(op.verb, Verb::Flush { .. }) {
            return self.spoil_flush(qp, op, fault);
        }
        let host = &self.hosts[self.qps[self.qps[qp].peer].host];
        match fault {
            Fault::NotEnabled if op.verb == Verb::SendInv => op.inv ^= 1 << self.rng.below(32),
            Fault::NotEnabled => {
                let region = &host.regions.0[self.qps[qp].inbox_region];
                match self.rng.below(4) {
                    0 => op.rkey ^= 1 << self.rng.below(32),
                    // The last byte is one too far, or the first one before the region.
                    1 => {
                        let end = region.va.wrapping_add(region.len as u64);
                        let over = if is_word(op.verb) { 0 } else { op.len - 1 };
                        op.rkey = region.rkey;
                        op.va = end.wrapping_sub(over.into());
                    }
                    2 if op.verb != Verb::Read => {
                        op.rkey = host.regions.0[host.source].rkey;
                        op.va = host.regions.0[host.source].va;
                    }
                    _ => {
                        op.rkey = region.rkey;
                        op.va = region.va.wrapping_sub(8);
                    }
                }
            }
            Fault::Misaligned => op.va += self.rng.range(1, 7),
            Fault::RemoteDefect => {
                let region = &host.regions.0[host.defective];
                (op.va, op.rkey) = (region.va, region.rkey);
                op.len = op.len.min(region.len as u32);
                op.data.truncate(op.len as usize);
            }
            Fault::ReadFails => {
                let region = &host.regions.0[host.unreadable];
                (op.va, op.rkey) = (region.va, region.rkey);
                op.len = op.len.min(region.len as u32);
                op.data = host.memory.read(region.at, op.len as usize).to_vec();
            }
            _ => {}
        }
    }
}
