// SPDX-License-Identifier: GPL-2.0

//! The state of a queue pair of any service, with the events that follow from it (IBTA 10.3.1).

use super::{Attr, Events, Invalid, Modify, State};

/// The state of a queue pair, and the events that its owner has not taken.
#[derive(Debug)]
pub(in super::super) struct QpState {
    state: State,
    /// The QP entered SQD, and the event for a drained send queue is still due.
    draining: bool,
    events: Events,
}

/// The transition of a connected queue pair that its service has something to do for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Transition {
    /// To the reset state: the service forgets everything, too.
    Reset,
    /// From INIT to RTR: the responder begins with the PSN of the attributes.
    Rtr,
    /// From RTR to RTS: the requester begins with the PSN of the attributes.
    Rts,
    /// To the error state, from another one.
    Error,
    /// Another one, or none.
    Other,
}

impl QpState {
    /// The reset state, without events.
    pub(in super::super) const RESET: Self = QpState {
        state: State::Reset,
        draining: false,
        events: Events::NONE,
    };

    /// The state.
    #[inline]
    pub(in super::super) const fn get(&self) -> State {
        self.state
    }

    /// Whether it is this state.
    #[inline]
    pub(in super::super) fn is(&self, state: State) -> bool {
        self.state == state
    }

    /// Changes the attributes `attr` of a connected queue pair and, perhaps, the state: all of it
    /// or nothing. The caller does what the returned transition asks for, and then calls
    /// [`QpState::note_drained`].
    pub(in super::super) fn modify(
        &mut self,
        change: &Modify,
        attr: &mut Attr,
    ) -> Result<Transition, Invalid> {
        let from = self.state;
        let (to, new) = change.transition(from, attr)?;
        if change.state == Some(State::Reset) {
            *attr = Attr::DEFAULT;
            *self = QpState::RESET;
            return Ok(Transition::Reset);
        }
        *attr = new;
        if to == State::Err {
            let entered = self.enter_error();
            return Ok(if entered {
                Transition::Error
            } else {
                Transition::Other
            });
        }
        self.enter(to);
        Ok(match (from, to) {
            (State::Init, State::Rtr) => Transition::Rtr,
            (State::Rtr, State::Rts) => Transition::Rts,
            _ => Transition::Other,
        })
    }

    /// Goes to a state that the QP may go to, without an event for the error state.
    #[inline]
    pub(in super::super) fn enter(&mut self, to: State) {
        if to == State::Sqd && self.state == State::Rts {
            self.draining = true;
        }
        self.state = to;
    }

    /// Goes to the error state, with an event. Returns false, and does nothing, if the QP is there.
    pub(in super::super) fn enter_error(&mut self) -> bool {
        if self.state == State::Err {
            return false;
        }
        self.state = State::Err;
        self.draining = false;
        self.events.raise(Events::ENTERED_ERROR);
        true
    }

    /// A send request of an unreliable service has failed: the send queue goes to SQE
    /// (IBTA 10.3.1.6).
    #[inline]
    pub(in super::super) fn fail_send_queue(&mut self) {
        if self.state == State::Rts {
            self.state = State::Sqe;
        }
    }

    /// Raises the event for a drained send queue if the send queue is drained, once for each
    /// transition to SQD.
    #[inline]
    pub(in super::super) fn note_drained(&mut self, is_drained: bool) {
        if self.draining && (self.state != State::Sqd || is_drained) {
            self.draining = false;
            if self.state == State::Sqd {
                self.events.raise(Events::SQ_DRAINED);
            }
        }
    }

    /// Adds `events`.
    #[inline]
    pub(in super::super) fn raise(&mut self, events: Events) {
        self.events.raise(events);
    }

    /// Whether there are no events, and this is not the error state.
    #[inline]
    pub(in super::super) fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.state != State::Err
    }

    /// The events since the last call.
    #[inline]
    pub(in super::super) fn take_events(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }
}
