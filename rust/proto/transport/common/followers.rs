// SPDX-License-Identifier: GPL-2.0

//! Estimates how many packets will follow one that is being sent. An owner that builds GSO
//! super-packets makes room for them in advance.

use super::wire::bth::BTH_LEN;
use super::{Payload, Request, RequestQueue, SendOp, Transmit};

/// Whether the packet has no headers but the BTH. One with more is longer than others of its
/// message.
#[inline]
pub(in super::super) fn is_plain(transmit: &Transmit) -> bool {
    transmit.header.header_len() == BTH_LEN
}

/// As `ConnectedQp::followers`, for packets of request `n`.
#[inline]
pub(in super::super) fn request_followers<Q: RequestQueue>(
    transmit: &Transmit,
    n: u32,
    q: &Q,
) -> u32 {
    match transmit.payload {
        Payload::None => coalescable_after(q, n),
        Payload::Request { offset, len, .. } => {
            let end = offset.saturating_add(len);
            after_request(q, n, end, transmit.segment_size(), is_plain(transmit))
        }
        Payload::Read { .. } => 0,
    }
}

/// As `ConnectedQp::followers`, for a packet of request `n` with `segment_size` bytes of payload,
/// which end before byte `end` of the message.
#[inline]
fn after_request<Q: RequestQueue>(q: &Q, n: u32, end: u32, segment_size: u32, plain: bool) -> u32 {
    let Some(request) = q.get(n) else {
        return 0;
    };
    let segment_size = segment_size.max(1);
    if request.len <= segment_size {
        return coalescable_after(q, n);
    }
    if !plain {
        return 0;
    }
    let rest = request.len.saturating_sub(end).div_ceil(segment_size);
    let further = match request.op {
        // All packets of such messages have the same headers, and here also the same length.
        SendOp::Send if request.len.checked_rem(segment_size) == Some(0) => coalescable_after(q, n),
        _ => 0,
    };
    rest.saturating_add(further.saturating_mul(request.len.div_ceil(segment_size)))
}

/// How many requests come after request `n`, if the next one has the same operation and length, and
/// the others probably have too.
#[inline]
fn coalescable_after<Q: RequestQueue>(q: &Q, n: u32) -> u32 {
    let next = n.wrapping_add(1);
    match (q.get(n), q.get(next)) {
        (Some(a), Some(b)) if are_alike(a, b) => q.tail().wrapping_sub(next),
        _ => 0,
    }
}

#[inline]
fn are_alike(a: &Request, b: &Request) -> bool {
    core::mem::discriminant(&a.op) == core::mem::discriminant(&b.op) && a.len == b.len
}
