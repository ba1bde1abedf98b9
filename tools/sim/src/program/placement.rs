// SPDX-License-Identifier: GPL-2.0

//! ATOMIC WRITEs and FLUSHes, as programs post them.

use super::{Post, Programs};
use crate::api::SendOp;
use crate::model::fault::Fault;
use crate::model::op::Op;
use crate::model::verb::Verb;
use crate::rng::Rng;
use oxe_proto::wire::FethRepr;

/// The placement types of a FLUSH.
const GLOBAL: u8 = 1;
const PERSISTENT: u8 = 2;
/// The selectivity level of a range; the next one is that of a region.
const RANGE: u8 = 0;

/// A FLUSH for global visibility, of a range or a region.
pub fn flush_global(rng: &mut Rng) -> Verb {
    Verb::Flush {
        placement: GLOBAL,
        level: RANGE + u8::from(rng.one_in(3)),
        range: 0,
    }
}

/// The request of the transport for a FLUSH.
pub fn send_flush(placement: u8, level: u8, range: u32) -> SendOp {
    let feth = FethRepr::new(placement, level).expect("no program draws more");
    SendOp::Flush { feth, len: range }
}

impl Programs<'_> {
    pub fn draw_atomic_write(&mut self, qp: usize) -> Post {
        let mut op = self.blank(Verb::AtomicWrite, 8);
        self.load(qp, &mut op);
        let at = self.place(qp, &mut op, 8);
        (op, Some(at))
    }

    /// A FLUSH of the inbox. Of a region, address and length mean nothing (IBTA annex A19.4.1).
    pub fn draw_flush(&mut self, qp: usize, level: u8) -> Op {
        let most = self.qps[qp].flow.inbox_len();
        let range = self.draw_len(self.qps[qp].flow.pmtu, most);
        let mut op = self.blank(flush_global(&mut Rng::new(0)), range);
        self.place(qp, &mut op, 1);
        op.len = 0;
        op.verb = Verb::Flush {
            placement: GLOBAL,
            level,
            range,
        };
        if level != RANGE {
            op.va = self.rng.next();
        }
        op
    }

    /// Makes the responder refuse a FLUSH.
    pub fn spoil_flush(&mut self, qp: usize, op: &mut Op, fault: Fault) {
        let Verb::Flush {
            placement,
            level,
            range,
        } = &mut op.verb
        else {
            return;
        };
        let host = &self.hosts[self.qps[self.qps[qp].peer].host];
        let rng = &mut *self.rng;
        match fault {
            Fault::Reserved => match rng.below(3) {
                0 => *placement = 0,
                1 => *placement |= rng.pick(&[4, 8, 12]),
                _ => *level = rng.pick(&[2, 3]),
            },
            Fault::RemoteDefect => {
                let region = &host.regions.0[host.defective];
                (op.va, op.rkey) = (region.va, region.rkey);
                *range = (*range).min(region.len as u32);
            }
            Fault::NotEnabled => match rng.below(4) {
                0 => op.rkey ^= 1 << rng.below(32),
                1 => *placement |= PERSISTENT,
                2 => {
                    let region = &host.regions.0[host.source];
                    (op.va, op.rkey, *range) = (region.va, region.rkey, 8);
                }
                _ => {
                    let region = &host.regions.0[self.qps[qp].inbox_region];
                    *level = RANGE;
                    *range = rng.range(1, 64) as u32;
                    let end = region.va.wrapping_add(region.len as u64);
                    op.va = end.wrapping_sub(u64::from(*range) - 1);
                }
            },
            _ => {}
        }
    }
}
