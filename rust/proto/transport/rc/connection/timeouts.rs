// SPDX-License-Identifier: GPL-2.0

//! The timeouts of a connection, those of both halves.

use super::super::common::time::earlier;
use super::super::common::{Instant, RequestQueue};
use super::super::requester::cwnd::CongestionControl;
use super::super::responder::resource::Resource;
use super::Connection;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// The time to call [`Connection::handle_timeout`], if there is no other input before. A call
    /// that is early or repeated does no harm, so that a timer armed for an earlier time need not
    /// be stopped.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ack = if self.state.get().responds() {
            self.responder.poll_timeout()
        } else {
            None
        };
        let request = if self.state.get().requests() {
            self.requester.poll_timeout()
        } else {
            None
        };
        earlier(ack, request)
    }

    /// The time is `now`: handles expired timeouts. Afterwards [`Connection::poll_timeout`] is
    /// later than `now`, even if no packet can be sent yet.
    pub fn handle_timeout<Q: RequestQueue>(&mut self, now: Instant, q: &mut Q) {
        self.responder.handle_timeout(now);
        if self.state.get().requests() {
            self.requester.handle_timeout(now, &self.attr, q);
            self.note_failure();
        }
    }
}
