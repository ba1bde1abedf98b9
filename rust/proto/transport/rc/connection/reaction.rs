// SPDX-License-Identifier: GPL-2.0

//! The reaction point of a connection: congestion notifications, and the rate that they leave it.

use super::super::common::{DropReason, Instant, ReactionPoint, RequestQueue, Transmit, Verdict};
use super::super::requester::cwnd::{Congestion, CongestionControl};
use super::super::requester::Requester;
use super::super::responder::resource::Resource;
use super::super::wire::{PacketRepr, Psn};
use super::Connection;

impl<R: AsRef<[Resource]> + AsMut<[Resource]>, C: CongestionControl> Connection<R, C> {
    /// The connection has these controllers, of request packets and of READ response packets. It
    /// has those of its type, unless this is called before the first packet.
    pub fn control(&mut self, requests: C, responses: C) {
        let congestion = Congestion::of(requests, responses);
        self.requester = Requester::controlled(Psn::ZERO, congestion);
        self.requester.keep_responses(self.keeps_responses);
        self.requester.repair_alone(self.keeps_requests);
    }

    /// The connection has this reaction point. It has none, unless this is called before the first
    /// packet.
    pub fn react(&mut self, reaction: ReactionPoint) {
        self.reaction = reaction;
    }

    /// The reaction point, for queries.
    #[inline]
    pub fn reaction(&self) -> &ReactionPoint {
        &self.reaction
    }

    /// The verdict on a packet that is none of the connection's, for `reason`: a notification is
    /// accepted if the connection reacts.
    #[cold]
    pub(super) fn refuse(&mut self, now: Instant, reason: DropReason) -> Verdict {
        if reason != DropReason::Cnp || !self.reaction.on_notification(now) {
            return Verdict::Dropped(reason);
        }
        self.requester.note_notification();
        Verdict::Accepted
    }

    /// A packet was handled with this verdict. If it was accepted, its BECN bit is a notification,
    /// too (IBTA annex A17.9.2).
    #[inline]
    pub(super) fn heed_becn(
        &mut self,
        now: Instant,
        pkt: &PacketRepr,
        verdict: Verdict,
    ) -> Verdict {
        if pkt.bth.becn && verdict == Verdict::Accepted {
            self.reaction.on_notification(now);
        }
        verdict
    }

    /// The next packet or segments, when the rate is limited.
    #[cold]
    pub(super) fn poll_limited<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        let most = self.reaction.admits(now, self.attr.pmtu.bytes());
        if most == 0 {
            return self.poll_without_payload(now, q);
        }
        self.requester.ask_often(self.reaction.is_limited());
        let transmit = self.poll_halves(now, max_segments.min(most), q)?;
        self.reaction.on_sent(now, &transmit);
        // The rate may have become the largest by that.
        self.requester.ask_often(self.reaction.is_limited());
        Some(transmit)
    }

    /// The next packet, if it has no payload. Such a packet needs next to nothing of the rate, and
    /// the peer waits for it: for ACKs, and for READ requests, whose responses are the peer's.
    fn poll_without_payload<Q: RequestQueue>(
        &mut self,
        now: Instant,
        q: &mut Q,
    ) -> Option<Transmit> {
        if self.responder.sends_response_next() {
            self.reaction.wait();
        } else if let Some(transmit) = self.poll_responder(now, 1) {
            return Some(transmit);
        }
        if self.requester.sends_payload_next(q) {
            self.reaction.wait();
            return None;
        }
        self.poll_requester(now, 1, q)
    }

    /// How many packets may follow one that is sent, as far as the rate goes.
    #[inline]
    pub(in super::super) fn limit_followers(&self, followers: u32) -> u32 {
        match self.reaction.is_limited() {
            true => followers.min(self.reaction.left(self.attr.pmtu.bytes())),
            false => followers,
        }
    }
}
