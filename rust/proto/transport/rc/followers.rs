// SPDX-License-Identifier: GPL-2.0

//! Estimates how many packets will follow one that a connection sends (see
//! [`ConnectedQp::followers`]).

use super::common::followers::{is_plain, request_followers};
use super::common::{ConnectedQp, Origin, Payload, RequestQueue, Transmit};
use super::connection::Connection;
use super::requester::cwnd::CongestionControl;
use super::responder::resource::Resource;
use super::wire::Position;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// See [`ConnectedQp::followers`].
    #[inline]
    pub(super) fn count_followers<Q: RequestQueue>(&self, transmit: &Transmit, q: &Q) -> u32 {
        let alike = match (transmit.origin, transmit.payload) {
            (Origin::Request { n }, _) => request_followers(transmit, n, q),
            (Origin::Response, Payload::Read { res, .. }) if is_plain(transmit) => {
                self.responder().middle_left(res)
            }
            (Origin::Response, _) => self.after_response(transmit),
            (Origin::Acknowledge, _) => 0,
        };
        self.limit_followers(alike).max(self.ack_is_due().into())
    }

    /// As [`ConnectedQp::followers`], for the first, last or only packet of a response.
    #[inline]
    fn after_response(&self, transmit: &Transmit) -> u32 {
        let due = self.responder().responses_due();
        match transmit.header.bth.opcode.info().position {
            Position::Only => due,
            // The first packet of the next response has the same length, and a shorter one may
            // follow it.
            Position::Last if transmit.segment_size() == self.attr().pmtu.bytes() => due.min(2),
            _ => 0,
        }
    }
}
