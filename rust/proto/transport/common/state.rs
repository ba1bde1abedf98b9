// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair and the transitions between them (IBTA 10.3.1, Figure 124).

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Reset: nothing is set up, and packets and requests are not processed.
    #[default]
    Reset,
    /// Initialised: receives may be posted, packets are dropped.
    Init,
    /// Ready to receive: the responder is active.
    Rtr,
    /// Ready to send: requester and responder are active.
    Rts,
    /// Send queue drain: the requester finishes the requests that have begun, and begins no other.
    Sqd,
    /// Send queue error; an RC queue pair never gets here.
    Sqe,
    /// Error: everything is flushed.
    Err,
}

impl State {
    /// All states.
    pub const ALL: [State; 7] = [
        State::Reset,
        State::Init,
        State::Rtr,
        State::Rts,
        State::Sqd,
        State::Sqe,
        State::Err,
    ];

    /// Whether a modify may lead from `self` to `to`.
    pub const fn may_become(self, to: State) -> bool {
        use State::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
        matches!(
            (self, to),
            (_, Reset | Err)
                | (Reset | Init, Init)
                | (Init, Rtr)
                | (Rtr | Rts | Sqd | Sqe, Rts)
                | (Rts | Sqd, Sqd)
        )
    }

    /// Whether request packets are taken.
    #[inline]
    pub const fn responds(self) -> bool {
        matches!(self, State::Rtr | State::Rts | State::Sqd | State::Sqe)
    }

    /// Whether requests are sent and responses are taken.
    #[inline]
    pub const fn requests(self) -> bool {
        matches!(self, State::Rts | State::Sqd)
    }
}
