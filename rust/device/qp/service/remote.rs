// SPDX-License-Identifier: GPL-2.0

//! Memory that the peer of a connected QP names: lookup of the key, and the requests that are
//! carried out on arrival and need no grant afterwards.

use crate::device::mem::error::MemError;
use crate::device::mem::grant::{Grant, MkeyCache};
use crate::device::mem::mkey::AccessRequest;
use crate::device::mem::range::Cover;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::qp::context::QpContext;
use crate::proto::transport::{AccessError, AtomicOp, Flush};
use crate::rdma::access::Access;
use crate::rdma::strided::StridedDst;
use crate::sync::barrier;

/// Looks up a key that the peer named, in `cache` first.
#[inline]
pub(super) fn lookup(
    qp: &QpContext,
    key: u32,
    (va, len): (u64, u32),
    access: Access,
    cache: &mut MkeyCache,
) -> Result<Grant, MemError> {
    let wanted = AccessRequest {
        accessor: qp.peer(),
        key,
        va,
        len,
        access,
        cover: Cover::Whole,
    };
    Grant::lookup_cached(&qp.mkeys, &wanted, cache)
}

/// Carries out an atomic operation; returns the original value.
///
/// # Errors
///
/// Misaligned; Access.
pub(super) fn atomic(
    qp: &QpContext,
    va: u64,
    rkey: u32,
    op: AtomicOp,
    cache: &mut MkeyCache,
) -> Result<u64, AccessError> {
    if va & 7 != 0 {
        return Err(AccessError::Misaligned);
    }
    lookup(qp, rkey, (va, 8), Access::REMOTE_ATOMIC, cache)?.with_word(|word| match op {
        AtomicOp::CompareSwap { compare, swap } => word.cmpxchg(compare, swap),
        AtomicOp::FetchAdd { add } => word.fetch_add(add),
    })
}

/// Stores the payload of an ATOMIC WRITE.
///
/// # Errors
///
/// Misaligned; Access, also if the memory of the sender of a loopback packet is gone.
pub(super) fn atomic_write(
    qp: &QpContext,
    va: u64,
    rkey: u32,
    packet: &RxPacket<'_>,
    cache: &mut MkeyCache,
) -> Result<(), AccessError> {
    if va & 7 != 0 {
        return Err(AccessError::Misaligned);
    }
    let grant = lookup(qp, rkey, (va, 8), Access::REMOTE_WRITE, cache)?;
    let value = payload_word(packet)?;
    grant.with_word(|word| word.store(value))
}

/// The payload of an ATOMIC WRITE, as the word that it will be in memory: its bytes keep their
/// order.
///
/// # Errors
///
/// Access. Op if the payload does not have 8 bytes, which the transport has checked.
fn payload_word(packet: &RxPacket<'_>) -> Result<u64, AccessError> {
    let mut bytes = [0; 8];
    let mut filled = 0_usize;
    let len = bytes.len();
    let mut out = StridedDst::new(&mut bytes, 0, len, len);
    packet.for_payload(|_, chunk| {
        filled = filled.saturating_add(chunk.len());
        out.put(chunk).ok_or(MemError::Bounds)
    })?;
    if filled != len {
        return Err(AccessError::Op);
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// Carries out a FLUSH.
///
/// # Errors
///
/// Access, always for persistence: no region is known to be of persistent memory.
pub(super) fn flush(
    qp: &QpContext,
    flush: &Flush,
    cache: &mut MkeyCache,
) -> Result<(), AccessError> {
    if flush.persistent {
        return Err(AccessError::Access);
    }
    let (va, len, cover) = match flush.range {
        Some((va, len)) => (va, len, Cover::Whole),
        None => (0, 0, Cover::Prefix),
    };
    let wanted = AccessRequest {
        accessor: qp.peer(),
        key: flush.rkey,
        va,
        len,
        access: Access::FLUSH_GLOBAL,
        cover,
    };
    Grant::lookup_cached(&qp.mkeys, &wanted, cache)?;
    // CPUs have stored the earlier payloads, and all CPUs and devices see the same memory: the
    // stores need only be done. Those of other CPUs were done when they released the QP's lock.
    barrier::full();
    Ok(())
}
