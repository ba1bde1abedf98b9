// SPDX-License-Identifier: GPL-2.0

//! The programs: who posts what, and when. They draw what to do next and answer with actions; the
//! run carries these out. They allocate memory of their hosts and remember what they know of keys,
//! but touch no QP's engine or queues.

pub mod datagrams;
pub mod deregister;
pub mod faulty;
pub mod keys;
pub mod local;
pub mod placement;
pub mod reuse;
pub mod turn;
pub mod uc;
pub mod workload;

use crate::host::machine::Host;
use crate::host::qp::Qp;
use crate::model::op::Op;
use crate::profile::Plan;
use crate::rng::Rng;

/// A request to be posted, and the place in the inbox that it is about, if any.
pub type Post = (Op, Option<usize>);

/// The programs behind all QPs, with what they draw from.
pub struct Programs<'a> {
    pub plan: &'a Plan,
    pub rng: &'a mut Rng,
    pub hosts: &'a mut [Host],
    pub qps: &'a mut [Qp],
}

impl Programs<'_> {
    /// The host at the other end.
    fn peer_host(&mut self, qp: usize) -> &mut Host {
        &mut self.hosts[self.qps[self.qps[qp].peer].host]
    }
}
