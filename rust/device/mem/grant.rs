// SPDX-License-Identifier: GPL-2.0

//! Grants: the result of a key lookup. Range and rights were checked once, for all bytes of the
//! part of a region.

use super::error::MemError;
use super::mr::Mr;
use crate::device::pd::PdId;
use crate::device::Core;
use crate::proto::transport::{AccessError, AtomicOp};
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;
use kernel::sync::Arc;

/// The right to access `len` bytes of a region from address `va` on, in the way that the lookup
/// asked for. The region may be closed later; an access then fails.
#[derive(Clone)]
pub(crate) struct Grant {
    mr: Arc<Mr>,
    va: u64,
    len: u32,
}

/// As [`Mr::find`], but tries the cached MR first.
#[inline]
fn find_cached(
    core: &Core,
    pd: PdId,
    key: u32,
    access: Access,
    mr_cache: &mut Option<Arc<Mr>>,
) -> Result<Arc<Mr>, MemError> {
    Ok(match mr_cache {
        // The cached MR may be closed, and another one may have its key.
        Some(mr) if mr.allows(pd, key, access) && mr.is_open() => mr.clone(),
        _ => {
            *mr_cache = None;
            let mr = Mr::find(core, pd, key, access)?;
            *mr_cache = Some(mr.clone());
            mr
        }
    })
}

impl Grant {
    /// Looks up `key` for `len` bytes from `va`. Any context.
    ///
    /// # Errors
    ///
    /// Key or Bounds: the checks of IBTA 10.6.3.1 for local access, of 9.7.4.1 for remote access.
    #[inline]
    pub(crate) fn lookup(
        core: &Core,
        pd: PdId,
        key: u32,
        (va, len): (u64, u32),
        access: Access,
    ) -> Result<Self, MemError> {
        let mr = Mr::find(core, pd, key, access)?;
        mr.offset(va, len.into())?;
        Ok(Grant { mr, va, len })
    }

    /// As [`Grant::lookup`], but tries the cached MR first.
    #[inline]
    pub(crate) fn lookup_cached(
        core: &Core,
        pd: PdId,
        key: u32,
        (va, len): (u64, u32),
        access: Access,
        mr_cache: &mut Option<Arc<Mr>>,
    ) -> Result<Self, MemError> {
        let mr = find_cached(core, pd, key, access, mr_cache)?;
        mr.offset(va, len.into())?;
        Ok(Grant { mr, va, len })
    }

    /// As [`Grant::lookup_cached`], for as many of the bytes from `va` on as the region has.
    ///
    /// # Errors
    ///
    /// Key.
    #[inline]
    pub(crate) fn lookup_front(
        core: &Core,
        pd: PdId,
        key: u32,
        (va, len): (u64, u32),
        access: Access,
        mr_cache: &mut Option<Arc<Mr>>,
    ) -> Result<Self, MemError> {
        let mr = find_cached(core, pd, key, access, mr_cache)?;
        let len = mr.bytes_from(va).min(len.into()) as u32;
        Ok(Grant { mr, va, len })
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
            mr: self.mr.clone(),
            va,
            len,
        })
    }

    /// Whether the region is still open. Any context.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.mr.is_open()
    }

    /// Calls `each` with `len` bytes from byte `offset` on, chunk by chunk. Any context; `each`
    /// must not close a region.
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
        self.mr
            .for_each_chunk(self.address(offset, len)?, len, each)
    }

    /// Copies `bytes` to the grant, from byte `offset` on. Any context.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault.
    #[inline]
    pub(crate) fn write(&self, offset: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        self.mr.write(self.address(offset, bytes.len())?, bytes)
    }

    /// Carries out an atomic operation on its first 8 bytes: see [`Mr::atomic`].
    #[inline]
    pub(crate) fn atomic(&self, op: AtomicOp) -> Result<u64, AccessError> {
        self.mr.atomic(self.va, op)
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
