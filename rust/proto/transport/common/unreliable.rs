// SPDX-License-Identifier: GPL-2.0

//! The send queue of the unreliable services, UC and UD (IBTA 9.8): nothing is acknowledged, so a
//! request is complete when its last packet is sent and its payload is no longer needed.

use super::qp_state::QpState;
use super::{Request, RequestQueue, SendCompletion, State, Status};

/// Counts the requests of a send queue.
///
/// ```text
///   una              released         next           tail
///    |  complete      |  sent          |  not sent    |
/// ```
#[derive(Debug)]
pub(in super::super) struct UnreliableQueue {
    /// The oldest request whose completion was not returned.
    una: u32,
    /// The first request whose payload the owner still needs.
    released: u32,
    /// The first request that is not sent to its end, or that has failed and waits for its
    /// completion.
    next: u32,
    failed: Option<Status>,
    /// Packets were returned since the latest release: the owner may still need the payload of
    /// request `next`, too, though that is not sent to its end, or has failed.
    unreleased: bool,
}

impl UnreliableQueue {
    /// No request was posted yet.
    pub(in super::super) const NEW: Self = UnreliableQueue {
        una: 0,
        released: 0,
        next: 0,
        failed: None,
        unreleased: false,
    };

    /// The first request that is not sent to its end.
    #[inline]
    pub(in super::super) const fn next(&self) -> u32 {
        self.next
    }

    /// Whether a request has failed and waits for its completion.
    #[inline]
    pub(in super::super) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the owner needs no payload any more.
    #[inline]
    pub(in super::super) const fn is_released(&self) -> bool {
        self.released == self.next && !self.unreleased
    }

    /// A packet of the next request was returned.
    #[inline]
    pub(in super::super) fn note_packet(&mut self) {
        self.unreleased = true;
    }

    /// The next request is sent to its end.
    #[inline]
    pub(in super::super) fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Request `n`, the newest one, is not sent to its end after all.
    #[inline]
    pub(in super::super) fn return_to(&mut self, n: u32) {
        self.next = n;
    }

    /// The next request completes with `status` when all before it are complete.
    #[inline]
    pub(in super::super) fn fail(&mut self, status: Status) {
        self.failed = Some(status);
    }

    /// The owner has copied the payloads of all packets. Returns whether it was asked to wait for
    /// that.
    #[inline]
    pub(in super::super) fn release(&mut self) -> bool {
        let waited = !self.is_released();
        self.released = self.next;
        self.unreleased = false;
        waited
    }

    /// The next completion, in the order of posting. A request that failed takes the send queue to
    /// the SQE state, and the requests after it are flushed (IBTA 10.3.1.6). In the error state all
    /// requests are flushed.
    #[inline]
    pub(in super::super) fn poll_completion<Q: RequestQueue>(
        &mut self,
        qp: &mut QpState,
        q: &Q,
    ) -> Option<SendCompletion> {
        let n = self.una;
        let request: &Request = q.get(n)?;
        let status = if n != self.released {
            Status::Success
        } else if n != self.next || self.unreleased {
            return None;
        } else if let Some(status) = self.failed.take() {
            qp.fail_send_queue();
            status
        } else if matches!(qp.get(), State::Sqe | State::Err) {
            Status::WrFlush
        } else {
            return None;
        };
        self.una = n.wrapping_add(1);
        if n == self.next {
            self.next = self.una;
            self.released = self.una;
        }
        Some(SendCompletion {
            n,
            status,
            byte_len: request.len,
            signaled: request.signaled,
        })
    }
}
