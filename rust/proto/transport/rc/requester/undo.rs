// SPDX-License-Identifier: GPL-2.0

//! Takes back packets that the requester has returned and that were not sent.

use super::common::{RequestQueue, Status};
use super::cwnd::CongestionControl;
use super::Psn;
use super::{Cursor, Requester};

impl<C: CongestionControl> Requester<C> {
    /// Takes back the packets of request `n` from `psn` on, which were not sent.
    #[cold]
    pub(in super::super) fn undo<Q: RequestQueue>(&mut self, n: u32, psn: Psn, q: &Q) {
        if self.undo_gap_request(psn) || self.undo_repair(psn) {
            return;
        }
        let wants_response = q.get(n).is_some_and(|request| request.op.wants_response());
        // The READ was about to be resumed, and late responses to it may have come meanwhile.
        let late = wants_response && n == self.una.n && psn.distance(self.una.psn) < 0;
        let psn = if late { self.una.psn } else { psn };
        if self.offset(psn) >= self.offset(self.cursor.psn) {
            return;
        }
        self.tally.on_undo(psn, self.cursor.psn);
        let undone = if wants_response {
            self.in_flight.remove_rd_atomic();
            1
        } else {
            let packets = u16::try_from(self.cursor.psn.offset_from(psn)).unwrap_or(u16::MAX);
            self.in_flight.remove(packets);
            packets
        };
        self.cursor = Cursor { n, psn };
        // The packets before may have left it to this one to ask for the acknowledgement.
        let in_flight = self.in_flight.packets() > 0;
        let owed = in_flight && self.ack_req.relied_on(undone) && !self.ends_with_response(q);
        self.ack_req.on_undo(psn, undone, owed);
        self.recovery.on_undo(in_flight, owed);
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
        self.ack_req.forget_undone();
    }
}
