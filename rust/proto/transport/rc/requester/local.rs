// SPDX-License-Identifier: GPL-2.0

//! Requests that send nothing: operations on keys of this side. They begin in the order of posting,
//! as all requests do (IBTA 10.8.3.3), and complete in it. They have no PSN, so the positions of
//! the requester step over those that were carried out.

use super::common::{RequestQueue, Status};
use super::cwnd::CongestionControl;
use super::Requester;

impl<C: CongestionControl> Requester<C> {
    /// The request whose turn it is to begin, if it sends nothing. A fenced one waits until all
    /// requests before it are acknowledged (IBTA 10.8.3.3, local invalidate fence): a SEND or WRITE
    /// may have to be sent again, by the key that this one ends.
    #[inline]
    pub(in super::super) fn local_turn<Q: RequestQueue>(&self, q: &Q) -> Option<u32> {
        let n = self.started.n;
        if self.cursor.n != n || n == q.tail() || self.has_failed() {
            return None;
        }
        let request = q.get(n)?;
        let waits = request.fence && self.una.n != n;
        (request.op.is_local() && request.local_error.is_none() && !waits).then_some(n)
    }

    /// The request that [`Requester::local_turn`] named was carried out, or failed. One that failed
    /// completes once all requests before it are complete.
    #[inline]
    pub(in super::super) fn finish_local<Q: RequestQueue>(
        &mut self,
        result: Result<(), Status>,
        q: &mut Q,
    ) {
        let n = self.started.n;
        let Some(request) = q.get_mut(n) else { return };
        if let Err(status) = result {
            request.local_error = Some(status);
            return;
        }
        request.first_psn = self.started.psn;
        request.psns = 0;
        self.started.n = n.wrapping_add(1);
        self.cursor.n = self.started.n;
        if self.una.n == n {
            self.una.n = self.started.n;
        } else {
            self.locals = self.locals.saturating_add(1);
        }
    }

    /// The request after `n` that is not begun, or has PSNs.
    #[inline]
    pub(in super::super) fn after<Q: RequestQueue>(&self, n: u32, q: &Q) -> u32 {
        let next = n.wrapping_add(1);
        if self.locals == 0 {
            return next;
        }
        self.skip(next, q)
    }

    #[cold]
    fn skip<Q: RequestQueue>(&self, mut n: u32, q: &Q) -> u32 {
        while n != self.started.n && q.get(n).is_some_and(|request| request.op.is_local()) {
            n = n.wrapping_add(1);
        }
        n
    }

    /// Request `una.n` is acknowledged: moves on to the next one that is not.
    #[inline]
    pub(in super::super) fn leave_una<Q: RequestQueue>(&mut self, q: &Q) {
        let next = self.after(self.una.n, q);
        let stepped = next.wrapping_sub(self.una.n).wrapping_sub(1);
        self.locals = self.locals.saturating_sub(stepped);
        self.una.n = next;
    }

    /// The request before `n` that has PSNs; the one before `una` if there is none.
    #[inline]
    pub(super) fn before<Q: RequestQueue>(&self, n: u32, q: &Q) -> u32 {
        let mut n = n.wrapping_sub(1);
        while self.locals != 0 && q.get(n).is_some_and(|request| request.op.is_local()) {
            n = n.wrapping_sub(1);
        }
        n
    }
}
