// SPDX-License-Identifier: GPL-2.0

//! When an ACK may wait for company.
//!
//! A responder may delay and coalesce acknowledgements (IBTA 9.7.5.1.2). Where each message is answered
//! by a message, as in remote procedure calls, an ACK of its own costs as much on both sides as the
//! answer; sent right behind the answer it costs next to nothing. So after a few messages in a row that
//! were answered at once, the ACK of the next one waits for its answer, but not for long. One answer
//! that does not come in time, or a peer that is less patient, and ACKs go out at once again.

use super::Instant;

/// How long an ACK waits, in nanoseconds: longer than a program takes that was woken for the message and
/// answers it, so that the timer which ends the wait seldom has to run, and far below the timeouts that
/// requesters use.
pub(super) const PATIENCE: u64 = 500_000;

/// How many messages must have been answered at once, one after the other.
const STREAK: u8 = 4;

/// What this side is in the habit of doing with messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    /// Messages answered at once since one that was not; no more than [`STREAK`] are counted.
    streak: u8,
    /// When the message came that has no answer yet.
    heard: Option<Instant>,
    /// The peer does not wait long enough.
    hasty_peer: bool,
}

impl Habit {
    /// A message is complete whose ACK is due. Until when that may wait, if it may.
    #[inline]
    pub(super) fn hear(&mut self, now: Instant) -> Option<Instant> {
        if self.heard.replace(now).is_some() {
            // The one before it had no answer.
            self.streak = 0;
        }
        (self.streak >= STREAK && !self.hasty_peer).then(|| now.after(PATIENCE))
    }

    /// A message of ours begins.
    #[inline]
    pub(super) fn answer(&mut self, now: Instant) {
        if let Some(heard) = self.heard.take() {
            self.streak = if now <= heard.after(PATIENCE) {
                self.streak.saturating_add(1).min(STREAK)
            } else {
                0
            };
        }
    }

    /// An ACK waited in vain.
    #[cold]
    pub(super) fn lapse(&mut self) {
        self.streak = 0;
    }

    /// The peer sent a message again whose ACK was waiting.
    #[cold]
    pub(super) fn mind_peer(&mut self) {
        self.hasty_peer = true;
    }
}
