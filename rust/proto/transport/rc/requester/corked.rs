// SPDX-License-Identifier: GPL-2.0

//! Requests that wait for others, see `autocork.rs`.

use super::cwnd::CongestionControl;
use super::{Instant, RequestQueue, Requester};

impl<C: CongestionControl> Requester<C> {
    /// Whether what is posted next may be corked.
    #[inline]
    pub fn may_cork(&self) -> bool {
        self.autocork.may_cork()
    }

    /// Whether there are requests that have not begun, which stay corked.
    #[inline(always)]
    pub(in super::super) fn corks<Q: RequestQueue>(
        &mut self,
        now: Instant,
        draining: bool,
        q: &Q,
    ) -> bool {
        let next = self.started.n;
        let fresh = self.cursor.n == next && next != q.tail() && !draining;
        // Another packet must follow one that did not ask for an acknowledgement.
        if !fresh || self.ack_req.is_owed() {
            self.autocork.flush();
            return false;
        }
        self.autocork.is_corked(now, next, q)
    }

    /// Uncorks all requests, and forgets that they were posted in a streak.
    #[inline]
    pub(in super::super) fn uncork(&mut self) {
        self.autocork.reset();
    }
}
