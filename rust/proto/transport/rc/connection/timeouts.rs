// SPDX-License-Identifier: GPL-2.0

//! The timeouts of a connection, those of both halves, and what waits for one.

use super::super::common::time::earlier;
use super::super::common::{Instant, RequestQueue, State};
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
        let due = earlier(ack, request);
        if self.reaction.is_limited() {
            return earlier(due, self.reaction.deadline());
        }
        due
    }

    /// The time is `now`: handles expired timeouts. Afterwards [`Connection::poll_timeout`] is
    /// later than `now`, even if no packet can be sent yet.
    pub fn handle_timeout<Q: RequestQueue>(&mut self, now: Instant, q: &mut Q) {
        self.reaction.handle_timeout(now);
        self.responder.handle_timeout(now);
        if self.state.get().requests() {
            self.requester.handle_timeout(now, &self.attr, q);
            self.note_failure();
        }
    }

    /// Makes a delayed ACK and corked requests due at once. The owner calls this, and then
    /// [`Connection::poll_transmit`], before it resets or destroys the queue pair: the peer's
    /// request was carried out, and the peer must learn that.
    pub fn flush_delayed(&mut self) {
        self.responder.flush_delayed_ack();
        self.requester.uncork();
    }

    /// Whether nothing is due, as the requests that have not begun stay corked: until its timeout
    /// [`ConnectedQp::poll_transmit`] would return no packet.
    #[inline]
    pub fn is_corked<Q: RequestQueue>(&mut self, now: Instant, q: &Q) -> bool {
        self.state.is(State::Rts)
            && !self.responder.may_transmit()
            && self.requester.corks(now, false, q)
    }
}
