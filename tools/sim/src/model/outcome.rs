// SPDX-License-Identifier: GPL-2.0

//! What has become of a QP, as its program sees it.

use crate::api::Status;

/// The fate of a QP, as its program sees it.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// The program moved it to error.
    pub killed: bool,
    /// It went to the error state.
    pub dead: bool,
    /// The first status that was no success.
    pub first_error: Option<Status>,
    /// A receive completed with this error before all flushes.
    pub receive_error: Option<Status>,
    /// An event has reported an error to its program.
    pub event: bool,
    /// It took a request before it could send.
    pub early: bool,
    /// Communication was established.
    pub established: bool,
}

/// The state of a pause of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    No,
    /// In SQD; so many requests had begun before.
    Draining(usize),
    /// Drained.
    Drained(usize),
}
