// SPDX-License-Identifier: GPL-2.0

//! Pacing of request packets: where the window holds a few, they are spread over the round trip. No
//! window limits a connection to less than a packet in each round trip; this does, and so a hundred
//! of them can share a queue that has no room for a packet of each.

use super::common::Instant;

/// When the next request packet may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    next: Instant,
    /// `next`, if a packet waits for it.
    deadline: Option<Instant>,
}

impl Pacer {
    /// A packet may be sent at once.
    pub(super) const NEW: Self = Pacer {
        next: Instant(0),
        deadline: None,
    };

    /// A packet is sent at the time `now`, and the next one `nanos` nanoseconds later.
    #[cold]
    pub(super) fn on_sent(&mut self, now: Instant, nanos: u64) {
        self.next = now.after(nanos);
    }

    /// Whether a packet that could be sent at the time `now` has to wait.
    #[cold]
    pub(super) fn holds_back(&mut self, now: Instant) -> bool {
        self.deadline = (now < self.next).then_some(self.next);
        self.deadline.is_some()
    }

    /// The time is `now`: what waits until then may be sent.
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.deadline = self.deadline.filter(|deadline| now < *deadline);
    }

    /// When the packet that waits may be sent, if one does.
    #[cold]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
