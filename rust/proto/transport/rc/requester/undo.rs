// SPDX-License-Identifier: GPL-2.0

//! Takes back packets that the requester has returned and that were not sent.

use super::common::{RequestQueue, Status};
use super::Psn;
use super::{Cursor, Requester};

impl Requester {
    /// Takes back the packets of request `n` from `psn` on, which were not sent.
    #[cold]
    pub(in super::super) fn undo<Q: RequestQueue>(&mut self, n: u32, psn: Psn, q: &Q) {
        let wants_response = q.get(n).is_some_and(|request| request.op.wants_response());
        // The READ was about to be resumed, and late responses to it may have come meanwhile.
        let late = wants_response && n == self.una.n && psn.distance(self.una.psn) < 0;
        let psn = if late { self.una.psn } else { psn };
        if self.offset(psn) >= self.offset(self.cursor.psn) {
            return;
        }
        let undone = if wants_response {
            self.outstanding_rd_atomic = self.outstanding_rd_atomic.saturating_sub(1);
            1
        } else {
            u16::try_from(self.cursor.psn.offset_from(psn)).unwrap_or(u16::MAX)
        };
        if self.ack_req_owed {
            self.since_ack_req = self.since_ack_req.saturating_sub(undone);
        }
        self.cursor = Cursor { n, psn };
        self.in_flight = self.in_flight.saturating_sub(undone);
        // The packets before may have left it to this one to ask for the acknowledgement.
        let asks_later = self.ack_req_was_owed || undone < self.segments;
        self.ack_req_owed = self.in_flight > 0 && asks_later && !self.ends_with_response(q);
        self.ack_req_was_owed = true;
        self.ask_first = self.ack_req_owed && self.undone == Some(psn);
        self.undone = Some(psn);
        self.recovery.on_undo(self.in_flight > 0, self.ack_req_owed);
    }

    /// The request of the packet before the cursor, if there is one.
    pub(super) fn request_before<Q: RequestQueue>(&self, q: &Q) -> u32 {
        let Cursor { n, psn } = self.cursor;
        let inside =
            n != self.started.n && q.get(n).is_some_and(|request| request.first_psn != psn);
        if inside {
            n
        } else {
            self.before(n, q)
        }
    }

    /// Whether the packet before the cursor is a READ or an atomic, which has a response in any
    /// case.
    pub(in super::super) fn ends_with_response<Q: RequestQueue>(&self, q: &Q) -> bool {
        q.get(self.request_before(q))
            .is_some_and(|request| request.op.wants_response())
    }

    /// The bytes of request `n` could not be read for the packet with `psn`: the request ends there
    /// and completes with `status` in its turn.
    #[cold]
    pub(in super::super) fn local_error<Q: RequestQueue>(
        &mut self,
        n: u32,
        psn: Psn,
        status: Status,
        q: &mut Q,
    ) {
        if let Some(request) = q.get_mut(n) {
            request.local_error = Some(status);
        }
        self.undo(n, psn, q);
        // The request will not be tried again: either it fails now, or no packet can be sent.
        self.ask_first = false;
    }
}
