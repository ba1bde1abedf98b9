// SPDX-License-Identifier: GPL-2.0

//! Memory regions: keys, registration and deregistration, copies.

use super::error::MemError;
use crate::device::pd::PdId;
use crate::device::Core;
use crate::proto::transport::{AccessError, AtomicOp};
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::{KernelMemory, UserMemory};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::revocable::Revocable;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The shift of the table index in a key. Both the index and the low byte are random: a peer cannot
/// derive keys from others that it knows, and a stale key matches another region by chance only.
const KEY_SHIFT: u32 = 8;

/// The bytes behind a region.
enum Memory {
    /// Pinned pages of a process; released on revocation.
    User(Revocable<UserMemory>),
    /// The kernel's own address space, for kernel users.
    Kernel(Revocable<KernelMemory>),
}

/// A memory region. Its lkey and rkey are the same number.
pub(crate) struct Mr {
    key: u32,
    pd: PdId,
    access: Access,
    /// The address of the first byte, as work requests and peers use it.
    iova: u64,
    length: u64,
    memory: Memory,
}

/// The Rust part of an ib_mr.
pub(crate) struct MrObject {
    core: Arc<Core>,
    mr: Arc<Mr>,
}

impl MrObject {
    /// The object of `mr`.
    pub(crate) fn new(core: &Arc<Core>, mr: Arc<Mr>) -> Self {
        MrObject {
            core: core.clone(),
            mr,
        }
    }

    /// See [`Mr::close`].
    pub(crate) fn close(&self) {
        self.mr.close(&self.core);
    }
}

impl Mr {
    /// Registers `length` bytes at `start` of the calling process.
    ///
    /// Process context. EINVAL for a range that wraps; the errors of pinning: EFAULT, ENOMEM.
    pub(crate) fn user(
        core: &Core,
        pd: PdId,
        memory: UserMemory,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Arc<Self>> {
        iova.checked_add(length).ok_or(EINVAL)?;
        Self::publish(
            core,
            pd,
            Memory::User(Revocable::new(memory)),
            iova,
            length,
            access,
        )
    }

    /// A region of all of the kernel's memory, for kernel users.
    ///
    /// Process context. ENOMEM.
    pub(crate) fn dma(
        core: &Core,
        pd: PdId,
        memory: KernelMemory,
        access: Access,
    ) -> Result<Arc<Self>> {
        let memory = Memory::Kernel(Revocable::new(memory));
        Self::publish(core, pd, memory, 0, u64::MAX, access)
    }

    fn publish(
        core: &Core,
        pd: PdId,
        memory: Memory,
        iova: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Self>> {
        let user = matches!(memory, Memory::User(_));
        let index = core.mrs.reserve_random(user)?;
        let key = (index << KEY_SHIFT) | (crate::sync::random_u32() & 0xff);
        let mr = Arc::new(
            Mr {
                key,
                pd,
                access,
                iova,
                length,
                memory,
            },
            GFP_CHARGED,
        )
        .inspect_err(|_| core.mrs.cancel(index))?;
        core.mrs.publish(index, mr.clone());
        Ok(mr)
    }

    /// The region's lkey and rkey.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Ends every use of the region: a lookup does not find it any more, holders of a reference
    /// find it closed, and its pages are released on return.
    ///
    /// Process context, sleeps.
    pub(crate) fn close(&self, core: &Core) {
        core.mrs.remove(self.key >> KEY_SHIFT);
        match &self.memory {
            Memory::User(revocable) => revocable.revoke(),
            Memory::Kernel(revocable) => revocable.revoke(),
        }
    }

    /// The region with `key`, if `pd` and `access` allow its use. Any context.
    ///
    /// # Errors
    ///
    /// Key.
    #[inline]
    pub(super) fn find(
        core: &Core,
        pd: PdId,
        key: u32,
        access: Access,
    ) -> Result<Arc<Self>, MemError> {
        let mr = core.mrs.get(key >> KEY_SHIFT).ok_or(MemError::Key)?;
        if !mr.allows(pd, key, access) {
            return Err(MemError::Key);
        }
        Ok(mr)
    }

    #[inline]
    pub(super) fn allows(&self, pd: PdId, key: u32, access: Access) -> bool {
        self.key == key && self.pd == pd && self.access.contains(access)
    }

    /// The offset of `va` in the region, if the `len` bytes from there are all inside.
    ///
    /// # Errors
    ///
    /// Bounds.
    #[inline]
    pub(super) fn offset(&self, va: u64, len: u64) -> Result<u64, MemError> {
        let offset = va.checked_sub(self.iova).ok_or(MemError::Bounds)?;
        let rest = self.length.checked_sub(offset).ok_or(MemError::Bounds)?;
        if len > rest {
            return Err(MemError::Bounds);
        }
        Ok(offset)
    }

    /// How many bytes the region has from `va` on.
    #[inline]
    pub(super) fn bytes_from(&self, va: u64) -> u64 {
        self.offset(va, 0)
            .map_or(0, |offset| self.length.saturating_sub(offset))
    }

    /// Calls `each` with the `len` bytes at `va`, chunk by chunk.
    ///
    /// Any context; `each` must not close a region.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault; Fault also if `each` returns `None`.
    #[inline]
    pub(super) fn for_each_chunk(
        &self,
        va: u64,
        len: usize,
        each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        let offset = self.offset(va, len as u64)?;
        match &self.memory {
            Memory::User(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                memory.for_each_chunk(offset, len, each)
            }
            Memory::Kernel(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                memory.for_each_chunk(va, len, each)
            }
        }
        .ok_or(MemError::Fault)
    }

    /// Whether the region is still open. Any context.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        match &self.memory {
            Memory::User(revocable) => revocable.is_open(),
            Memory::Kernel(revocable) => revocable.is_open(),
        }
    }

    /// Copies bytes to `va`. Any context. The caller has checked the right to write.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault.
    #[inline]
    pub(super) fn write(&self, va: u64, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        let offset = self.offset(va, bytes.len() as u64)?;
        match &self.memory {
            Memory::User(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                memory.write(offset, bytes)
            }
            Memory::Kernel(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                memory.write(va, bytes)
            }
        }
        .ok_or(MemError::Fault)
    }

    /// Carries out an atomic operation on the 8 bytes at `va`, in the processor's byte order;
    /// returns the original value. Atomic with respect to other regions and to the processor
    /// (IB_ATOMIC_GLOB).
    ///
    /// Any context. The caller has checked the right to do that.
    ///
    /// # Errors
    ///
    /// Misaligned if `va` or the address in memory is no multiple of 8; otherwise the
    /// [`MemError`]s.
    pub(super) fn atomic(&self, va: u64, op: AtomicOp) -> Result<u64, AccessError> {
        if va & 7 != 0 {
            return Err(AccessError::Misaligned);
        }
        let offset = self.offset(va, 8)?;
        match &self.memory {
            Memory::User(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                match op {
                    AtomicOp::CompareSwap { compare, swap } => {
                        memory.cmpxchg(offset, compare, swap)
                    }
                    AtomicOp::FetchAdd { add } => memory.fetch_add(offset, add),
                }
            }
            Memory::Kernel(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                match op {
                    AtomicOp::CompareSwap { compare, swap } => memory.cmpxchg(va, compare, swap),
                    AtomicOp::FetchAdd { add } => memory.fetch_add(va, add),
                }
            }
        }
        // `va` is aligned, but not the address in memory: iova and start differ in their low bits.
        .ok_or(AccessError::Misaligned)
    }
}
