// SPDX-License-Identifier: GPL-2.0

//! Programs deregister memory while requests use it, at either end.

use super::Programs;
use crate::profile::MS;

/// The memory that a program deregisters.
#[derive(Clone, Copy, Debug)]
pub enum Deregistration {
    /// That of all requests in the send queue of the QP.
    Requests,
    /// That of all receives which these will meet.
    Receives,
    /// A region of the peer's host.
    Region(usize),
}

impl Programs<'_> {
    /// What the program at one of the QP's ends deregisters.
    pub fn draw_deregistration(&mut self, qp: usize) -> Deregistration {
        match self.rng.below(4) {
            0 => Deregistration::Requests,
            1 => Deregistration::Receives,
            2 => Deregistration::Region(self.qps[qp].inbox_region),
            _ => Deregistration::Region(self.peer_host(qp).source),
        }
    }

    /// After how many ns more memory is deregistered, if at all.
    pub fn draw_next_deregistration(&mut self) -> Option<u64> {
        let more = self.rng.one_in(2);
        more.then(|| self.rng.below(2 * MS))
    }
}
