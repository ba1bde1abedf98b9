// SPDX-License-Identifier: GPL-2.0

//! Grants: the result of a key lookup. Range and rights were checked once, for all bytes of the
//! part of a region or window.

use super::error::MemError;
use super::mkey::{AccessRequest, Admission, Mkey};
use super::mkeys::Mkeys;
use super::writer::Writer;
use crate::proto::transport::AccessError;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::Word;
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

/// The region or window of the latest lookup, for the next one.
pub(crate) type MkeyCache = Option<Arc<Mkey>>;

impl Grant {
    /// Looks up the key for `wanted`. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Key; Bounds for [`Cover::Whole`](super::range::Cover::Whole).
    #[inline]
    fn lookup(mkeys: &Mkeys, wanted: &AccessRequest) -> Result<Self, MemError> {
        let mkey = mkeys.get(wanted.key)?;
        let admission = mkey.admit(wanted)?;
        Ok(Self::new(mkey, admission, wanted))
    }

    /// As [`Grant::lookup`], of the cached region if that is the one, and caches it otherwise.
    ///
    /// # Errors
    ///
    /// As for [`Grant::lookup`].
    #[inline]
    pub(crate) fn lookup_cached(
        mkeys: &Mkeys,
        wanted: &AccessRequest,
        cache: &mut MkeyCache,
    ) -> Result<Self, MemError> {
        match Self::from_cache(wanted, cache) {
            Some(grant) => Ok(grant),
            None => Self::lookup_anew(mkeys, wanted, cache),
        }
    }

    /// As [`Grant::lookup`], of the cached region. `None` if that has another key, is closed, or
    /// does not permit the use.
    #[inline]
    pub(crate) fn from_cache(wanted: &AccessRequest, cache: &MkeyCache) -> Option<Self> {
        let mkey = cache.as_ref()?;
        let admission = mkey.admit(wanted).ok()?;
        Some(Self::new(mkey.clone(), admission, wanted))
    }

    /// As [`Grant::lookup`], and caches the region.
    ///
    /// # Errors
    ///
    /// As for [`Grant::lookup`].
    #[inline(never)]
    pub(crate) fn lookup_anew(
        mkeys: &Mkeys,
        wanted: &AccessRequest,
        cache: &mut MkeyCache,
    ) -> Result<Self, MemError> {
        *cache = None;
        let grant = Self::lookup(mkeys, wanted)?;
        *cache = Some(grant.mkey.clone());
        Ok(grant)
    }

    #[inline]
    fn new(mkey: Arc<Mkey>, admission: Admission, wanted: &AccessRequest) -> Self {
        Grant {
            mkey,
            generation: admission.generation,
            len: admission.len,
            va: wanted.va,
        }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether some of the addresses are those of `other`.
    pub(crate) fn overlaps(&self, other: &Grant) -> bool {
        let end = |grant: &Grant| grant.va.saturating_add(grant.len.into());
        self.va < end(other) && other.va < end(self)
    }

    /// The part of the grant that has `len` bytes from byte `offset` on, if an access is still
    /// possible, and all bytes are there. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent.
    #[inline]
    pub(crate) fn part(&self, offset: u32, len: u32) -> Result<Self, MemError> {
        if !self.mkey.is_open(self.generation) {
            return Err(MemError::Revoked);
        }
        let va = self.address(offset, len as usize)?;
        if self.mkey.may_fault(self.generation) {
            self.look_for_pages(offset, len)?;
        }
        Ok(Grant {
            mkey: self.mkey.clone(),
            generation: self.generation,
            len,
            va,
        })
    }

    /// Asks for the pages of `len` bytes from byte `offset` on, if one is missing. Any context with
    /// bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent.
    #[cold]
    fn look_for_pages(&self, offset: u32, len: u32) -> Result<(), MemError> {
        self.for_each_chunk(offset, len as usize, |_| Some(()))
    }

    /// Calls `each` with `len` bytes from byte `offset` on, chunk by chunk. Any context with
    /// bottom halves disabled; `each` must not close a region.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent; Fault also if `each` returns `None`.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        offset: u32,
        len: usize,
        each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        let va = self.address(offset, len)?;
        let result = self.mkey.for_each_chunk(self.generation, va, len, each);
        result.map_err(|why| self.want(why, offset, len, false))
    }

    /// For copying `len` bytes in parts to the grant, from byte `offset` on. Any context with
    /// bottom halves disabled until the returned value is dropped; the caller must not close a
    /// region meanwhile.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked.
    #[inline]
    pub(crate) fn writer(&self, offset: u32, len: u32) -> Result<Writer<'_>, MemError> {
        let va = self.address(offset, len as usize)?;
        Writer::new(&self.mkey, self.generation, va, len)
    }

    /// Copies `bytes` to the grant, from byte `offset` on. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent.
    #[inline]
    pub(crate) fn write(&self, offset: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        let va = self.address(offset, bytes.len())?;
        let result = self.mkey.write(self.generation, va, bytes);
        result.map_err(|why| self.want(why, offset, bytes.len(), true))
    }

    /// Calls `access` with its first word: see [`Mkey::with_word`].
    #[inline]
    pub(crate) fn with_word<T>(
        &self,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<T, AccessError> {
        let result = self.mkey.with_word(self.generation, self.va, access);
        result.map_err(|why| match why {
            AccessError::NotPresent => self.want(MemError::NotPresent, 0, 8, true).into(),
            why => why,
        })
    }

    /// An access failed: asks for the pages from there on, if one was missing. Returns the reason,
    /// which may be another one then: see [`Mkey::want`].
    #[inline]
    fn want(&self, why: MemError, offset: u32, len: usize, write: bool) -> MemError {
        if why != MemError::NotPresent {
            return why;
        }
        let va = self.va.wrapping_add(offset.into());
        let rest = self.len.saturating_sub(offset);
        let lens = (len as u64, rest.into());
        self.mkey.want(self.generation, va, lens, write)
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
