// SPDX-License-Identifier: GPL-2.0

//! Packets that wait although the window has room: for their time, as they are paced (`pacer.rs`),
//! or for more room, so that super-packets stay long.

use super::common::{Instant, Request, RequestQueue};
use super::cwnd::CongestionControl;
use super::{Requester, SWS_DIVISOR};

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

    /// Silly window syndrome avoidance (as in RFC 9293 3.8.6.2.1): with little room left in the
    /// window and more packets to send than that, the requester waits for the acknowledgement that
    /// it asked for. A short GSO super-packet costs the network stack as much as a full one, and
    /// short ones stay short, since each acknowledgement makes as much room as it acknowledges.
    #[inline]
    pub(super) fn avoids_sws<Q: RequestQueue>(&self, q: &Q) -> bool {
        let cwnd = self.recovery.cwnd();
        let room = cwnd.saturating_sub(self.in_flight.packets());
        if room >= cwnd / SWS_DIVISOR || self.in_flight.packets() == 0 || self.ack_req.is_owed() {
            return false;
        }
        let n = self.cursor.n;
        let others = q.tail().wrapping_sub(n).wrapping_sub(1);
        let left = match q.get(n) {
            Some(request) if n != self.started.n => request.end_psn().offset_from(self.cursor.psn),
            _ => 1,
        };
        left.saturating_add(others) > room.into()
    }
}
