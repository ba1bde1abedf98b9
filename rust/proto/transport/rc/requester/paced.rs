// SPDX-License-Identifier: GPL-2.0

//! Packets that wait as they are paced, see `pacer.rs`.

use super::common::{Instant, Request, RequestQueue};
use super::cwnd::CongestionControl;
use super::Requester;

impl<C: CongestionControl> Requester<C> {
    /// Whether the packet at the cursor has to wait, when packets are paced. READs and atomics need
    /// not: few of them are outstanding, and it is responses that are large.
    #[cold]
    pub(super) fn holds_back<Q: RequestQueue>(&mut self, now: Instant, q: &Q) -> bool {
        let n = self.cursor.n;
        if n == q.tail() || self.in_flight.packets() >= self.recovery.cwnd() {
            return false;
        }
        let message = |request: &Request| !request.op.wants_response() && !request.op.is_local();
        q.get(n).is_some_and(message) && self.recovery.holds_back(now)
    }
}
