// SPDX-License-Identifier: GPL-2.0

//! Which context sends for a queue pair.
//!
//! Many contexts bring inputs to a queue pair: processes, softirqs, workers. One at a time sends
//! for it, which keeps its packets in order. The others pass their input to the transport, and
//! leave what is due to that one, to queued work, or to the process that rang the doorbell.
//!
//! | from, event | `work_began` | `resumed` | `begin(false)` | `begin(true)`       | `stop`     |
//! |-------------|--------------|-----------|----------------|---------------------|------------|
//! | `Idle`      | `Idle`       | as it was | `Sending` (*)  | `Sending` (*)       | `Stopped`  |
//! | `Queued`    | `Idle`       | as it was | as it was      | `Sending` (*)       | `Stopped`  |
//! | `Posting`   | as it was    | `Idle`    | as it was      | `Sending` (*)       | `Stopped`  |
//! | `Sending`   | as it was    | as it was | rerun          | rerun and flush due | `Stopping` |
//! | `Stopping`  | as it was    | as it was | as it was      | as it was           | as it was  |
//! | `Stopped`   | as it was    | as it was | as it was      | as it was           | as it was  |
//!
//! (*) The context sends from now on. Only that context calls [`RunState::end`]: `Sending` becomes
//! `Idle`, `Queued` or `Posting`, as it says who sends the rest, and `Stopping` becomes `Stopped`.
//! [`RunState::restart`] makes `Stopped` `Idle`, and [`RunState::killed`] makes `Posting` `Queued`.

/// Which context sends for a queue pair. All methods are called under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// None does.
    Idle,
    /// Work is queued that will.
    Queued,
    /// The process that rang the doorbell will: it has yielded, and continues.
    Posting,
    /// A context is sending.
    Sending {
        /// More is due than that context knew when it began.
        rerun: bool,
        /// That context sends what is due once more, even if the queue pair is stopped meanwhile.
        flush_due: bool,
    },
    /// A context is sending, and ends that, since the queue pair is being stopped.
    Stopping {
        /// As for `Sending`.
        flush_due: bool,
    },
    /// None does: the queue pair is being reset, or was destroyed, and ignores all input.
    Stopped,
}

/// Who sends what is left when a context ends its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left.
    None,
    /// Work that is queued.
    Work,
    /// The process that rang the doorbell.
    Process,
}

impl RunState {
    /// Whether input is ignored.
    #[inline]
    pub fn is_stopped(self) -> bool {
        matches!(self, RunState::Stopping { .. } | RunState::Stopped)
    }

    /// Whether a context is sending.
    #[inline]
    pub fn is_sending(self) -> bool {
        matches!(self, RunState::Sending { .. } | RunState::Stopping { .. })
    }

    /// Queued work runs.
    #[inline]
    pub fn work_began(&mut self) {
        if *self == RunState::Queued {
            *self = RunState::Idle;
        }
    }

    /// The process that rang the doorbell continues.
    #[inline]
    pub fn resumed(&mut self) {
        if *self == RunState::Posting {
            *self = RunState::Idle;
        }
    }

    /// The process that was to continue is killed: work, which the caller queues, is in its place.
    pub fn killed(&mut self) {
        match self {
            RunState::Idle | RunState::Posting => *self = RunState::Queued,
            RunState::Queued
            | RunState::Sending { .. }
            | RunState::Stopping { .. }
            | RunState::Stopped => {}
        }
    }

    /// The calling context has passed an input to the transport. Returns whether it sends from now
    /// on; otherwise others will send what the input made due. A `flush` does not wait for those
    /// that are to run later.
    #[inline]
    pub fn begin(&mut self, flush: bool) -> bool {
        match self {
            RunState::Queued | RunState::Posting if !flush => false,
            RunState::Idle | RunState::Queued | RunState::Posting => {
                *self = RunState::Sending {
                    rerun: false,
                    flush_due: false,
                };
                true
            }
            RunState::Sending { rerun, flush_due } => {
                *rerun = true;
                *flush_due |= flush;
                false
            }
            RunState::Stopping { .. } | RunState::Stopped => false,
        }
    }

    /// More may be due: the context that is sending, if there is one, looks once more.
    #[inline]
    pub fn rerun(&mut self) {
        if let RunState::Sending { rerun, .. } = self {
            *rerun = true;
        }
    }

    /// Whether the context that is sending has to look once more.
    #[inline]
    pub fn is_rerun_due(self) -> bool {
        matches!(self, RunState::Sending { rerun: true, .. })
    }

    /// The context that is sending looks for what is due.
    #[inline]
    pub fn looks(&mut self) {
        if let RunState::Sending { rerun, .. } = self {
            *rerun = false;
        }
    }

    /// Whether the context that is sending owes a flush, which it carries out now.
    #[inline]
    pub fn take_flush(&mut self) -> bool {
        match self {
            RunState::Sending { flush_due, .. } | RunState::Stopping { flush_due } => {
                core::mem::take(flush_due)
            }
            _ => false,
        }
    }

    /// The context that was sending sends no longer. Returns whether a context waits for that in
    /// [`RunState::stop`].
    #[inline]
    pub fn end(&mut self, rest: Rest) -> bool {
        let is_awaited = self.is_stopped();
        *self = match rest {
            _ if is_awaited => RunState::Stopped,
            Rest::None => RunState::Idle,
            Rest::Work => RunState::Queued,
            Rest::Process => RunState::Posting,
        };
        is_awaited
    }

    /// The queue pair is to be stopped. Returns whether it is; if it is not, a context is still
    /// sending, and the caller waits for its [`RunState::end`] and asks again, as another context
    /// may have restarted the queue pair meanwhile.
    pub fn stop(&mut self) -> bool {
        *self = match *self {
            RunState::Sending { flush_due, .. } | RunState::Stopping { flush_due } => {
                RunState::Stopping { flush_due }
            }
            _ => RunState::Stopped,
        };
        *self == RunState::Stopped
    }

    /// The caller has stopped the queue pair, and has it take input again.
    pub fn restart(&mut self) {
        *self = RunState::Idle;
    }
}
