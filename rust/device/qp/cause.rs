// SPDX-License-Identifier: GPL-2.0

//! Why a QP is in the error state, or its send queue: the first cause since the last reset.

use crate::proto::transport::{Events, Status};
use kernel::str::CStr;

/// The first cause.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No error so far.
    None,
    /// A send request failed.
    Request(Status),
    /// The responder refused an access of the peer.
    Access,
    /// The responder refused a request of the peer.
    InvalidRequest,
    /// The responder failed for local reasons.
    Responder,
    /// The consumer moved the QP to the error state.
    Consumer,
    /// The device is being removed.
    Removal,
}

impl Cause {
    /// Keeps `cause`, if there is none before it.
    pub(crate) fn note(&mut self, cause: Cause) {
        if *self == Cause::None {
            *self = cause;
        }
    }

    /// A send request completed.
    #[inline]
    pub(crate) fn note_completion(&mut self, status: Status) {
        match status {
            // Flushed is what follows an error.
            Status::Success | Status::WrFlush => {}
            failed => self.note(Cause::Request(failed)),
        }
    }

    /// The transport raised these events.
    #[inline]
    pub(crate) fn note_events(&mut self, events: Events) {
        if events.contains(Events::ACCESS_ERR) {
            self.note(Cause::Access);
        } else if events.contains(Events::REQ_ERR) {
            self.note(Cause::InvalidRequest);
        } else if events.contains(Events::FATAL) {
            self.note(Cause::Responder);
        }
    }

    /// A line for people, with libibverbs's name of a status; `None` if there is no cause.
    pub(crate) fn text(self) -> Option<&'static CStr> {
        Some(match self {
            Cause::None => return None,
            Cause::Request(status) => request(status),
            Cause::Access => c"responder: refused an access of the peer (REM_ACCESS_ERR)",
            Cause::InvalidRequest => c"responder: refused a request of the peer (REM_INV_REQ_ERR)",
            Cause::Responder => c"responder: failed for local reasons (REM_OP_ERR)",
            Cause::Consumer => c"consumer: moved it to the error state",
            Cause::Removal => c"device: is being removed",
        })
    }
}

/// The text for a failed request.
fn request(status: Status) -> &'static CStr {
    match status {
        Status::Success => c"request: SUCCESS",
        Status::LocLen => c"request: LOC_LEN_ERR",
        Status::LocQpOp => c"request: LOC_QP_OP_ERR",
        Status::LocProt => c"request: LOC_PROT_ERR",
        Status::WrFlush => c"request: WR_FLUSH_ERR",
        Status::MwBind => c"request: MW_BIND_ERR",
        Status::BadResp => c"request: BAD_RESP_ERR",
        Status::LocAccess => c"request: LOC_ACCESS_ERR",
        Status::RemInvReq => c"request: REM_INV_REQ_ERR",
        Status::RemAccess => c"request: REM_ACCESS_ERR",
        Status::RemOp => c"request: REM_OP_ERR",
        Status::RetryExc => c"request: RETRY_EXC_ERR, the peer did not acknowledge",
        Status::RnrRetryExc => c"request: RNR_RETRY_EXC_ERR, the peer had no receive posted",
        Status::RemAbort => c"request: REM_ABORT_ERR",
        Status::General => c"request: GENERAL_ERR",
    }
}
