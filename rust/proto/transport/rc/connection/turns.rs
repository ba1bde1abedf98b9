// SPDX-License-Identifier: GPL-2.0

//! The turns of a connection's halves to send.

use super::super::common::{Instant, Origin, RequestQueue, State, Transmit};
use super::super::requester::cwnd::CongestionControl;
use super::super::responder::resource::Resource;
use super::Connection;

/// How many responses of one packet the responder sends in a row before the requester has its turn:
/// enough for them to share a super-packet.
const MAX_RESPONSES: u8 = 16;

// The functions that return a `Transmit`, some 100 bytes, are inlined wherever they are called:
// else each of them moves it.

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// See [`ConnectedQp::poll_transmit`].
    ///
    /// The responder's packets come before the requester's. During a long READ response, and after
    /// many short ones, the two take turns, so that a peer that always has READs outstanding does
    /// not starve this side's requests (IBTA 9.5 orders responses among themselves alone).
    #[inline(always)]
    pub(super) fn poll_halves<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        // Over loopback the peer handles an ACK before the requests that reply to the message.
        let ack_first = self.attr.pmtu.is_loopback()
            && self.state.get().requests()
            && self.requester.may_transmit(q)
            && self.responder.acknowledge_first();
        let requester_first = core::mem::take(&mut self.requester_next) && !ack_first;
        if !requester_first {
            if let Some(transmit) = self.poll_responder(now, max_segments) {
                self.note_turn(&transmit);
                return Some(transmit);
            }
        }
        self.responses = 0;
        if let Some(transmit) = self.poll_requester(now, max_segments, q) {
            return Some(transmit);
        }
        // A request that failed before it began has ended the connection, and a delayed ACK is due
        // now. There may be no other poll.
        if requester_first || self.responder.is_closing() {
            return self.poll_responder_last(now, max_segments);
        }
        None
    }

    #[inline(always)]
    pub(super) fn poll_requester<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        // Most polls find nothing.
        if !self.state.get().requests() || !self.requester.may_transmit(q) {
            return None;
        }
        let draining = self.state.is(State::Sqd);
        let begun = self.requester.next_request();
        // `note_started` is called on both paths, so that the `Transmit` is moved only if there is
        // one.
        let Some(transmit) = self
            .requester
            .poll(now, &self.attr, draining, max_segments, q)
        else {
            self.note_started(now, begun);
            return None;
        };
        self.note_started(now, begun);
        Some(transmit)
    }

    /// Called after the requester was polled; `begun` was its next request before.
    #[inline]
    fn note_started(&mut self, now: Instant, begun: u32) {
        if self.requester.next_request() != begun {
            // A delayed ACK follows the request.
            self.responder.on_request(now);
        }
        self.note_failure();
    }

    #[inline(always)]
    pub(super) fn poll_responder(&mut self, now: Instant, max_segments: u16) -> Option<Transmit> {
        if self.responder.has_due() && (self.state.get().responds() || self.responder.is_closing())
        {
            self.responder.poll(now, &self.attr, max_segments)
        } else {
            None
        }
    }

    /// Polls the responder after the requester: in turns with it, and once when the connection
    /// ends.
    fn poll_responder_last(&mut self, now: Instant, max_segments: u16) -> Option<Transmit> {
        let transmit = self.poll_responder(now, max_segments)?;
        self.note_turn(&transmit);
        Some(transmit)
    }

    /// The responder has had its turn. The next one is the requester's after a part of a long
    /// response, or after many short ones.
    #[inline]
    fn note_turn(&mut self, transmit: &Transmit) {
        if transmit.origin == Origin::Response {
            self.responses = self.responses.saturating_add(1);
            self.requester_next = transmit.is_long_response() || self.responses >= MAX_RESPONSES;
        }
    }
}
