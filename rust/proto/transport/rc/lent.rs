// SPDX-License-Identifier: GPL-2.0

//! Lent payloads. A loopback packet refers to the payload in memory of its sender, and the receiver
//! copies the bytes later. Until the owner says that it has them ([`ConnectedQp::release`]) that
//! memory is not the consumer's.
//!
//! A request is complete when its last packet is acknowledged (IBTA 9.7.5.1), but an ACK is the
//! peer's word. A peer may acknowledge packets without looking at their payload, as it does
//! with those that it takes for duplicates (IBTA 9.7.5.1.4). So the completions of requests whose
//! payload is lent are held. A peer that acknowledges what it has taken does so after the copy.
//!
//! [`ConnectedQp::release`]: super::common::ConnectedQp::release

use super::common::{Origin, Transmit};

/// The payloads that the owner has not released.
#[derive(Debug)]
pub(super) struct Lent {
    /// There are some; they may be of responses.
    any: bool,
    /// The first request whose payload is lent.
    first: Option<u32>,
}

impl Lent {
    /// No payload is lent.
    pub(super) const NONE: Self = Lent {
        any: false,
        first: None,
    };

    /// The owner refers to the payload of `t`.
    #[inline]
    pub(super) fn lend(&mut self, t: &Transmit) {
        if t.payload.is_empty() {
            return;
        }
        self.any = true;
        if let Origin::Request { n } = t.origin {
            if self.first.is_none_or(|first| is_after(first, n)) {
                self.first = Some(n);
            }
        }
    }

    /// Whether the payload of any packet is lent.
    #[inline]
    pub(super) const fn is_any(&self) -> bool {
        self.any
    }

    /// Whether the completion of request `n` is held.
    #[inline]
    pub(super) fn holds(&self, n: u32) -> bool {
        self.first.is_some_and(|first| !is_after(first, n))
    }

    /// Whether a request whose payload is lent was acknowledged; `una` is the first one that was
    /// not.
    #[inline]
    pub(super) fn is_acknowledged(&self, una: u32) -> bool {
        self.first.is_some_and(|first| is_after(una, first))
    }
}

/// Whether request `n` was posted after request `other`.
#[inline]
fn is_after(n: u32, other: u32) -> bool {
    (n.wrapping_sub(other) as i32) > 0
}
