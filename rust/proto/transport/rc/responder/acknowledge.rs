// SPDX-License-Identifier: GPL-2.0

//! The ACK or NAK that is due after the responses to READs and atomics. There is one at a time: an
//! ACK acknowledges everything before its PSN as well (IBTA 9.7.5.1.2).

use super::common::Instant;
use super::delayed_ack::DelayedAck;
use super::wire::{NakCode, Psn, Syndrome};

/// An ACK or NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledge {
    pub(super) syndrome: Syndrome,
    pub(super) psn: Psn,
    /// When it is due, if it is delayed (see `delayed_ack`); otherwise it is due now.
    deadline: Option<Instant>,
}

impl Acknowledge {
    /// One that is due now.
    #[inline]
    pub(super) fn new(syndrome: Syndrome, psn: Psn) -> Self {
        Acknowledge {
            syndrome,
            psn,
            deadline: None,
        }
    }

    #[inline]
    fn is_ack(&self) -> bool {
        matches!(self.syndrome, Syndrome::Ack { .. })
    }

    /// One past the last packet that it acknowledges (IBTA 9.7.5.1.2 and 9.7.5.2).
    #[inline]
    fn end(&self) -> Psn {
        if self.is_ack() {
            self.psn.next()
        } else {
            self.psn
        }
    }
}

/// The acknowledgements of one responder.
#[derive(Debug)]
pub(super) struct Acknowledger {
    due: Option<Acknowledge>,
    delayed: DelayedAck,
    /// One past the last packet of the newest SEND or WRITE, if that is not acknowledged yet.
    unacked: Option<Psn>,
}

impl Acknowledger {
    /// The state of a responder that has received nothing.
    pub(super) const NEW: Self = Acknowledger {
        due: None,
        delayed: DelayedAck::NEW,
        unacked: None,
    };

    /// Whether an ACK or NAK is due, now or later.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Whether an ACK or NAK is due now.
    #[inline]
    pub(super) fn is_due_now(&self) -> bool {
        self.due.is_some_and(|ack| ack.deadline.is_none())
    }

    /// Whether an ACK is due, now or later.
    pub(super) fn is_ack_due(&self) -> bool {
        self.due.is_some_and(|ack| ack.is_ack())
    }

    /// Whether an ACK or NAK with this PSN is due.
    #[inline]
    pub(super) fn is_due_at(&self, psn: Psn) -> bool {
        self.due.is_some_and(|ack| ack.psn == psn)
    }

    /// When the ACK that is delayed is due.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.and_then(|ack| ack.deadline)
    }

    /// Makes this one due now, in place of the one that was.
    #[inline]
    pub(super) fn set(&mut self, syndrome: Syndrome, psn: Psn) {
        self.due = Some(Acknowledge::new(syndrome, psn));
    }

    /// Makes an ACK due for the packet with `psn`, which was carried out. If it `may_wait`, as it
    /// ends a message, it is delayed where this side's program replies to messages.
    #[inline]
    pub(super) fn set_ack(&mut self, now: Instant, psn: Psn, may_wait: bool) {
        self.due = Some(Acknowledge {
            syndrome: Syndrome::ACK,
            psn,
            deadline: may_wait.then(|| self.delayed.on_message(now)).flatten(),
        });
    }

    /// None is due.
    #[inline]
    pub(super) fn cancel(&mut self) {
        self.due = None;
    }

    /// A SEND or WRITE is complete; its last packet is the one before `end`.
    #[inline]
    pub(super) fn on_message(&mut self, end: Psn) {
        self.unacked = Some(end);
    }

    /// This side's requester begins a request, which a delayed ACK follows.
    #[inline]
    pub(super) fn on_request(&mut self, now: Instant) {
        self.delayed.on_request(now);
        self.flush_delayed();
    }

    /// Makes a delayed ACK due at once.
    #[inline]
    pub(super) fn flush_delayed(&mut self) {
        if let Some(ack) = &mut self.due {
            ack.deadline = None;
        }
    }

    /// Whether a message was received that is not acknowledged.
    #[inline]
    pub(super) fn has_unacked(&self) -> bool {
        self.unacked.is_some()
    }

    /// Makes an ACK of everything before `epsn` due at once, unless a NAK is due, which
    /// acknowledges it as well (IBTA 9.7.5.2).
    #[inline]
    pub(super) fn acknowledge_before(&mut self, epsn: Psn) {
        if self.due.is_none_or(|ack| ack.is_ack()) {
            self.set(Syndrome::ACK, epsn.prev());
        }
    }

    /// Makes an ACK with `psn` due for a duplicate. One that is due keeps its PSN, unless
    /// `is_later` says that `psn` comes after that. A NAK that is due acknowledges all duplicates.
    pub(super) fn acknowledge_again(&mut self, psn: Psn, is_later: impl Fn(Psn, Psn) -> bool) {
        let Some(ack) = self.due else {
            self.set(Syndrome::ACK, psn);
            return;
        };
        if ack.deadline.is_some() {
            self.delayed.on_retransmission();
        }
        let moves = ack.syndrome == Syndrome::ACK && is_later(psn, ack.psn);
        self.set(ack.syndrome, if moves { psn } else { ack.psn });
    }

    /// A delayed ACK whose deadline has passed is due now, though responses may go first.
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(ack) = &mut self.due {
            if ack.deadline.take_if(|end| now >= *end).is_some() {
                self.delayed.on_expiry();
            }
        }
    }

    /// Takes the one that is due now.
    #[inline]
    pub(super) fn take(&mut self, now: Instant) -> Option<Acknowledge> {
        self.handle_timeout(now);
        let ack = self.due.take_if(|ack| ack.deadline.is_none())?;
        self.note_acked(ack.end());
        Some(ack)
    }

    /// All packets before `end` are acknowledged.
    #[inline]
    pub(super) fn note_acked(&mut self, end: Psn) {
        self.unacked.take_if(|message| !message.is_after(end));
    }

    /// Takes back one that was not sent. A newer one takes precedence.
    #[cold]
    pub(super) fn undo(&mut self, ack: Acknowledge) {
        self.unacked = self.unacked.or(Some(ack.end()));
        let fatal = matches!(ack.syndrome, Syndrome::Nak { code } if code != NakCode::PsnSequence);
        if fatal || self.due.is_none() {
            self.due = Some(ack);
        }
    }
}
