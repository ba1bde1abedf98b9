// SPDX-License-Identifier: GPL-2.0

//! Delayed ACK: the responder's acknowledgement waits for a request of its own QP to piggyback on.
//!
//! A responder may delay and coalesce acknowledgements (IBTA 9.7.5.1.2). In request-response
//! traffic, such as remote procedure calls, a separate ACK costs both sides as much as the reply
//! message does; an ACK that leaves in the same batch as the reply costs almost nothing. The
//! responder delays the ACK of a message once several messages in a row were followed by a message
//! of this side within [`ACK_DELAY_NS`]. A reply that comes too late, or a peer that retransmits
//! while its ACK is delayed, ends that.

use super::common::Instant;

/// How long an ACK is delayed at most, in nanoseconds: longer than a program takes to wake up and
/// reply, so that the timer rarely expires, and far below the ACK timeouts of requesters.
pub(in super::super::super) const ACK_DELAY_NS: u64 = 500_000;

/// Replied messages in a row before the next ACK is delayed.
const MIN_STREAK: u8 = 4;

/// Decides which ACKs are delayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayedAck {
    /// Replied messages in a row, at most [`MIN_STREAK`].
    streak: u8,
    /// When the newest message arrived, if this side has not replied yet.
    received: Option<Instant>,
    /// The peer retransmits sooner than a delayed ACK is sent.
    impatient_peer: bool,
}

impl DelayedAck {
    /// The state of a responder that has received nothing.
    pub(super) const NEW: Self = DelayedAck {
        streak: 0,
        received: None,
        impatient_peer: false,
    };

    /// A message whose ACK is due is complete. Returns the deadline of its ACK if that is delayed.
    #[inline]
    pub(super) fn on_message(&mut self, now: Instant) -> Option<Instant> {
        if self.received.replace(now).is_some() {
            // The previous message had no reply.
            self.streak = 0;
        }
        (self.streak >= MIN_STREAK && !self.impatient_peer).then(|| now.after(ACK_DELAY_NS))
    }

    /// The requester of this side begins a request.
    #[inline]
    pub(super) fn on_request(&mut self, now: Instant) {
        if let Some(received) = self.received.take() {
            self.streak = if now <= received.after(ACK_DELAY_NS) {
                self.streak.saturating_add(1).min(MIN_STREAK)
            } else {
                0
            };
        }
    }

    /// A delayed ACK reached its deadline without a request to piggyback on.
    #[cold]
    pub(super) fn on_expiry(&mut self) {
        self.streak = 0;
    }

    /// The peer retransmitted a message whose ACK was delayed: none is delayed from now on.
    #[cold]
    pub(super) fn on_retransmission(&mut self) {
        self.impatient_peer = true;
    }
}
