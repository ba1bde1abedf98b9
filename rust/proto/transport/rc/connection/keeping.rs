// SPDX-License-Identifier: GPL-2.0

//! Packets behind a lost one: whether a connection keeps them, and when a kept one is handled.

use super::super::requester::cwnd::CongestionControl;
use super::super::requester::Requester;
use super::super::responder::resource::Resource;
use super::super::wire::Psn;
use super::Connection;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// Whether the requester keeps READ responses that come behind a missing one, and asks for that
    /// one alone. It does, unless this is called before the first request.
    pub fn keep_responses(&mut self, keeps: bool) {
        self.keeps_responses = keeps;
        self.requester.keep_responses(keeps);
    }

    /// Whether the responder has request packets kept that come behind a missing one, and the
    /// requester sends a missing one alone to a peer that does. They do, unless this is called
    /// before the first packet.
    pub fn keep_requests(&mut self, keeps: bool) {
        self.keeps_requests = keeps;
        self.requester.repair_alone(keeps);
        self.responder.keep_requests(keeps);
    }

    /// Whether the owner has packets to keep: once it has not, those that it has are to be dropped.
    #[inline]
    pub fn keeps_requests(&self) -> bool {
        self.responder.keeps_any()
    }

    /// The PSN of the kept packet whose turn has come, if there is one. The owner, which kept it
    /// ([`ResponderOps::keep`](super::super::common::ResponderOps::keep)), hands it to
    /// [`ConnectedQp::handle_segments`](super::super::common::ConnectedQp::handle_segments), and
    /// asks again. It asks after each request packet, as long as it keeps any.
    pub fn take_kept(&mut self) -> Option<Psn> {
        if !self.state.get().responds() {
            return None;
        }
        self.responder.take_kept()
    }

    pub(super) fn restart_requester(&mut self, psn: Psn) {
        let congestion = self.requester.congestion_anew();
        self.requester = Requester::controlled(psn, congestion);
        self.requester.keep_responses(self.keeps_responses);
        self.requester.repair_alone(self.keeps_requests);
    }
}
