// SPDX-License-Identifier: GPL-2.0

//! Grants: the result of a key lookup. Range and rights were checked once, for all bytes of the
//! part of a region or window.

use super::error::MemError;
use super::mkey::{Mkey, Party};
use crate::device::Core;
use crate::proto::transport::{AccessError, AtomicOp};
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;
use kernel::sync::Arc;

/// The right to access `len` bytes of a region or window from address `va` on, in the way that the
/// lookup asked for. It may be deregistered or invalidated later; an access then fails.
#[derive(Clone)]
pub(crate) struct Grant {
    mkey: Arc<Mkey>,
    generation: u32,
    len: u32,
    va: u64,
}

/// The region of the latest lookup of a queue.
pub(crate) type MkeyCache = Option<Arc<Mkey>>;

/// How many of the bytes that a lookup names must be inside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All of them.
    Whole,
    /// None: the grant is for as many from the first one on as there are.
    Front,
}

impl Grant {
    /// Looks up `key` for `len` bytes from `va`. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Key or Bounds: the checks of IBTA 10.6.3.1 for local access, of 9.7.4.1 for remote access.
    #[inline]
    pub(crate) fn lookup(
        core: &Core,
        party: Party,
        key: u32,
        (va, len): (u64, u32),
        access: Access,
    ) -> Result<Self, MemError> {
        let (mkey, admission) = Mkey::find(core, party, key, access)?;
        admission.range.offset(va, len.into())?;
        Ok(Grant {
            mkey,
            generation: admission.generation,
            len,
            va,
        })
    }

    /// As [`Grant::lookup`], but tries the cached region first, and `cover` says which bytes must
    /// be inside.
    ///
    /// # Errors
    ///
    /// Key; Bounds for [`Cover::Whole`].
    pub(crate) fn lookup_cached(
        core: &Core,
        party: Party,
        key: u32,
        (va, len): (u64, u32),
        (access, cover): (Access, Cover),
        cache: &mut MkeyCache,
    ) -> Result<Self, MemError> {
        // The cached one may be closed, and another one may have its key.
        let cached = cache.as_ref().and_then(|mkey| {
            let admission = mkey.admit(party, key, access)?;
            Some((mkey.clone(), admission))
        });
        let (mkey, admission) = match cached {
            Some(found) => found,
            None => {
                *cache = None;
                let found = Mkey::find(core, party, key, access)?;
                *cache = Some(found.0.clone());
                found
            }
        };
        let len = match cover {
            Cover::Whole => {
                admission.range.offset(va, len.into())?;
                len
            }
            Cover::Front => admission.range.bytes_from(va).min(len.into()) as u32,
        };
        Ok(Grant {
            mkey,
            generation: admission.generation,
            len,
            va,
        })
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The part of the grant that has `len` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// Bounds.
    #[inline]
    pub(crate) fn part(&self, offset: u32, len: u32) -> Result<Self, MemError> {
        let va = self.address(offset, len as usize)?;
        Ok(Grant {
            mkey: self.mkey.clone(),
            generation: self.generation,
            len,
            va,
        })
    }

    /// Whether an access is still possible. Any context.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.mkey.is_open(self.generation)
    }

    /// Calls `each` with `len` bytes from byte `offset` on, chunk by chunk. Any context with
    /// bottom halves disabled; `each` must not close a region.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault; Fault also if `each` returns `None`.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        offset: u32,
        len: usize,
        each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        let va = self.address(offset, len)?;
        self.mkey.for_each_chunk(self.generation, va, len, each)
    }

    /// Copies `bytes` to the grant, from byte `offset` on. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault.
    #[inline]
    pub(crate) fn write(&self, offset: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        let va = self.address(offset, bytes.len())?;
        self.mkey.write(self.generation, va, bytes)
    }

    /// Carries out an atomic operation on its first 8 bytes: see [`Mkey::atomic`].
    #[inline]
    pub(crate) fn atomic(&self, op: AtomicOp) -> Result<u64, AccessError> {
        self.mkey.atomic(self.generation, self.va, op)
    }

    /// The address of byte `offset`, if the grant covers `len` bytes from there.
    #[inline]
    fn address(&self, offset: u32, len: usize) -> Result<u64, MemError> {
        let rest = self.len.checked_sub(offset).ok_or(MemError::Bounds)?;
        if len > rest as usize {
            return Err(MemError::Bounds);
        }
        Ok(self.va.wrapping_add(offset.into()))
    }
}
