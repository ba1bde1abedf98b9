// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists: the local memory of a work request, keys already resolved.

use super::error::MemError;
use super::grant::{Grant, MkeyCache};
use super::mkey::{Party, Use};
use super::payload::{PayloadError, PayloadRef};
use super::range::Cover;
use crate::device::pd::PdId;
use crate::device::uabi::wqe::RxeSge;
use crate::device::Core;
use crate::rdma::access::Access;
use crate::rdma::strided::{StridedDst, StridedSrc};
use kernel::prelude::*;

/// An element whose key was looked up.
#[derive(Default)]
pub(crate) struct Sge {
    /// `None` if the length is 0. That of a receive may be shorter than the element.
    grant: Option<Grant>,
    len: u32,
}

/// What the memory of an element is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be sent.
    Source,
    /// For the response to a READ or an atomic.
    Response,
    /// To receive a message. It may be shorter than its buffer, and only the bytes of the message
    /// have to be in the region.
    Receive,
}

impl Sge {
    /// Becomes `raw`, with its key resolved. `cache` is what the latest lookup found. The key of an
    /// empty element is ignored (IBTA 10.8.3).
    ///
    /// # Errors
    ///
    /// As for [`Grant::lookup`]; for a receive Key alone.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        core: &Core,
        pd: PdId,
        raw: &RxeSge,
        purpose: Purpose,
        cache: &mut MkeyCache,
    ) -> Result<(), MemError> {
        if raw.length == 0 {
            *self = Sge::default();
            return Ok(());
        }
        let (access, cover) = match purpose {
            Purpose::Source => (Access::NONE, Cover::Whole),
            Purpose::Response => (Access::LOCAL_WRITE, Cover::Whole),
            Purpose::Receive => (Access::LOCAL_WRITE, Cover::Front),
        };
        let wanted = Use {
            party: Party::Local(pd),
            key: raw.lkey,
            va: raw.addr,
            len: raw.length,
            access,
            cover,
        };
        self.len = raw.length;
        self.grant = Grant::from_cache(&wanted, cache);
        if self.grant.is_none() {
            self.grant = Some(Grant::lookup_anew(core, &wanted, cache)?);
        }
        Ok(())
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// Calls `each` with the parts of `sges` that cover `len` bytes from byte `offset` of the list on:
/// the element, the offset in it, and the range of the `len` bytes that it holds.
///
/// # Errors
///
/// Bounds if the list is too short; the errors of `each`.
#[inline]
fn for_parts<E: From<MemError>>(
    sges: &[Sge],
    offset: u32,
    len: usize,
    mut each: impl FnMut(&Grant, u32, core::ops::Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let mut skip = offset;
    let mut done = 0_usize;
    for sge in sges {
        if done == len {
            break;
        }
        let Some(grant) = sge.grant.as_ref().filter(|_| sge.len > skip) else {
            skip = skip.wrapping_sub(sge.len);
            continue;
        };
        let room = sge.len.wrapping_sub(skip);
        let end = len.min(done.saturating_add(room as usize));
        each(grant, skip, done..end)?;
        done = end;
        skip = 0;
    }
    if done != len {
        return Err(MemError::Bounds.into());
    }
    Ok(())
}

/// Copies `len` bytes from byte `offset` of the list on. Any context.
///
/// # Errors
///
/// Bounds if the list is too short, Revoked, Fault.
#[inline]
pub(crate) fn gather(
    sges: &[Sge],
    offset: u32,
    len: usize,
    out: &mut StridedDst<'_>,
) -> Result<(), MemError> {
    for_parts(sges, offset, len, |grant, at, range| {
        grant.for_each_chunk(at, range.len(), |bytes| out.put(bytes))
    })
}

/// Copies bytes to byte `offset` of the list on. Any context.
///
/// # Errors
///
/// As for [`gather`]; a part of the bytes may be written then.
#[inline]
pub(crate) fn scatter(sges: &[Sge], offset: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
    for_parts(sges, offset, bytes.len(), |grant, at, range| {
        grant.write(at, bytes.part(range).ok_or(MemError::Bounds)?)
    })
}

/// A reference to `len` bytes from byte `offset` of the list on. Any context.
///
/// # Errors
///
/// NoMemory if there is no memory for a reference to several places; NotPresent; Bounds if the list
/// is too short.
#[inline]
pub(crate) fn source(sges: &[Sge], offset: u32, len: u32) -> Result<PayloadRef, PayloadError> {
    let mut first = None;
    let mut rest = None;
    for_parts(sges, offset, len as usize, |grant, at, range| {
        let part = grant.part(at, range.len() as u32)?;
        if first.is_none() && range.len() == len as usize {
            first = Some(part);
            return Ok(());
        }
        let list = rest.get_or_insert_with(KVec::new);
        list.push(part, GFP_ATOMIC)
            .map_err(|_| PayloadError::NoMemory)
    })?;
    Ok(match (first, rest) {
        (Some(grant), _) => PayloadRef::Region(grant),
        (None, Some(list)) => PayloadRef::List(list),
        (None, None) => PayloadRef::None,
    })
}

/// The length of a list in bytes, or `None` when it exceeds the longest message.
pub(crate) fn total(sges: &[Sge]) -> Option<u32> {
    sges.iter()
        .try_fold(0_u32, |sum, sge| sum.checked_add(sge.len()))
}
