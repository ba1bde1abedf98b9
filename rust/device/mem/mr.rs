// SPDX-License-Identifier: GPL-2.0

//! Memory regions that stay as they were registered: those of processes, and the one of all of the
//! kernel's memory.

use super::error::MemError;
use super::odp::{OdpMr, MAX_AHEAD};
use super::range::Range;
use crate::device::pd::PdId;
use crate::proto::transport::AccessError;
use crate::rdma::access::Access;
use crate::rdma::details::Details;
use crate::rdma::device::Device;
use crate::rdma::error::unsupported;
use crate::rdma::mr::Advice;
use crate::rdma::odp::OdpMemory;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::{KernelMemory, UserMemory, Word};
use crate::sync::revocable::{Revocable, RevocableGuard};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;

/// The bytes behind a region.
enum Memory {
    /// Pinned pages of a process; released on revocation.
    User(Revocable<UserMemory>),
    /// The kernel's own address space, for kernel users.
    Kernel(Revocable<KernelMemory>),
    /// Pages of a process that are not pinned; given up on revocation.
    OnDemand(Arc<OdpMr>),
}

/// A memory region that stays as it was registered. Its lkey and rkey are the same number.
pub(crate) struct Mr {
    key: u32,
    pd: PdId,
    access: Access,
    range: Range,
    memory: Memory,
    /// The number of windows bound to it, or [`CLOSED`].
    windows: Atomic<u32>,
}

/// The access rights that a region may have. No memory is known to be persistent. Optional ones are
/// hints, which may be ignored.
const REGION_ACCESS: u32 = Access::LOCAL_WRITE.bits()
    | Access::REMOTE_WRITE.bits()
    | Access::REMOTE_READ.bits()
    | Access::REMOTE_ATOMIC.bits()
    | Access::FLUSH_GLOBAL.bits()
    | Access::MW_BIND.bits()
    | Access::HUGETLB.bits()
    | Access::ON_DEMAND.bits()
    | Access::OPTIONAL.bits();

/// Memory of a process, for a region.
pub(crate) enum ProcessMemory {
    Pinned(UserMemory),
    OnDemand(OdpMemory),
}

impl ProcessMemory {
    /// Memory of the calling process. Errors: see [`UserMemory::pin`] and [`OdpMemory::new`];
    /// EOPNOTSUPP for rights that there are not.
    pub(crate) fn new<D>(dev: &Device<D>, start: u64, length: u64, access: Access) -> Result<Self> {
        if access.bits() & !REGION_ACCESS != 0 {
            return Err(unsupported());
        }
        Ok(if access.contains(Access::ON_DEMAND) {
            ProcessMemory::OnDemand(OdpMemory::new(dev, start, length, access)?)
        } else {
            ProcessMemory::Pinned(UserMemory::pin(dev, start, length, access)?)
        })
    }
}

/// The memory of a region that stays open while this lives.
pub(super) enum OpenMr<'a> {
    User(RevocableGuard<'a, UserMemory>),
    Kernel(RevocableGuard<'a, KernelMemory>),
    /// The kernel's, by addresses that a peer has named.
    PeerKernel(RevocableGuard<'a, KernelMemory>),
    OnDemand(RevocableGuard<'a, Arc<OdpMemory>>),
}

impl OpenMr<'_> {
    /// Copies bytes to `at`: an offset in the memory of a process, a kernel address. Any context
    /// with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Fault, NotPresent.
    #[inline(always)]
    pub(super) fn write(&self, at: u64, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        match self {
            OpenMr::User(memory) => memory.write(at, bytes),
            OpenMr::Kernel(memory) => memory.write(at, bytes),
            OpenMr::PeerKernel(memory) => memory.write_for_peer(at, bytes),
            OpenMr::OnDemand(memory) => return Ok(memory.write(at, bytes)?),
        }
        .ok_or(MemError::Fault)
    }
}

/// The side of a connection that names the memory of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A work request of the region's own consumer.
    Local,
    /// The peer.
    Peer,
}

/// The region is being deregistered: no window can be bound to it.
const CLOSED: u32 = u32::MAX;

impl Mr {
    /// A region of `memory`, which a process uses by the addresses in `range`.
    ///
    /// EINVAL for a range that wraps; ENOMEM.
    pub(super) fn user(
        key: u32,
        pd: PdId,
        memory: ProcessMemory,
        range: Range,
        access: Access,
    ) -> Result<Self> {
        range.iova.checked_add(range.length).ok_or(EINVAL)?;
        let memory = match memory {
            ProcessMemory::Pinned(memory) => Memory::User(Revocable::new(memory)),
            ProcessMemory::OnDemand(memory) => Memory::OnDemand(OdpMr::new(memory)?),
        };
        Ok(Self::new(key, pd, memory, range, access))
    }

    /// A region of all of the kernel's memory, for kernel users.
    pub(super) fn dma(key: u32, pd: PdId, memory: KernelMemory, access: Access) -> Self {
        let all = Range {
            iova: 0,
            length: u64::MAX,
        };
        Self::new(key, pd, Memory::Kernel(Revocable::new(memory)), all, access)
    }

    fn new(key: u32, pd: PdId, memory: Memory, range: Range, access: Access) -> Self {
        Mr {
            key,
            pd,
            access,
            range,
            memory,
            windows: Atomic::new(0),
        }
    }

    /// The address of the first byte in the process. Process context. EINVAL if the memory is of
    /// another process, or the kernel's.
    pub(crate) fn start(&self) -> Result<u64> {
        match &self.memory {
            Memory::User(memory) => memory.try_access().and_then(|memory| memory.start()),
            Memory::OnDemand(odp) => odp.memory.try_access().and_then(|memory| memory.start()),
            Memory::Kernel(_) => None,
        }
        .ok_or(EINVAL)
    }

    /// Writes details: see debugging.rst, which describes each. Any context.
    pub(crate) fn details(&self, out: &mut Details) {
        let kind = match self.memory {
            Memory::User(_) => c"pinned",
            Memory::Kernel(_) => c"all of the kernel's",
            Memory::OnDemand(_) => c"on demand",
        };
        out.text(c"memory", kind);
        match self.windows.load(Relaxed) {
            CLOSED => {}
            windows => out.number(c"windows", windows),
        }
    }

    /// From now on no window can be bound to the region. EBUSY if there is one.
    pub(crate) fn refuse_windows(&self) -> Result {
        match self.windows.cmpxchg(0, CLOSED, Full) {
            Ok(_) | Err(CLOSED) => Ok(()),
            Err(_) => Err(EBUSY),
        }
    }

    /// Takes [`Mr::refuse_windows`] back.
    pub(crate) fn admit_windows(&self) {
        self.windows.xchg(0, Full);
    }

    /// Ends every use of the region: holders of a reference find it closed, and its pages are
    /// released on return.
    ///
    /// Process context, sleeps. EBUSY if windows are bound to it: it stays open.
    pub(super) fn close(&self) -> Result {
        self.refuse_windows()?;
        match &self.memory {
            Memory::User(revocable) => revocable.revoke(),
            Memory::Kernel(revocable) => revocable.revoke(),
            Memory::OnDemand(odp) => odp.close(),
        }
        Ok(())
    }

    /// A window is bound to the region, if it is open; [`Mr::unbind`] takes it back. Any context.
    ///
    /// # Errors
    ///
    /// Revoked.
    pub(super) fn bind(&self) -> Result<(), MemError> {
        let mut seen = self.windows.load(Relaxed);
        loop {
            // Neither CLOSED nor so many windows that their count would be taken for it.
            if seen >= CLOSED.wrapping_sub(1) {
                return Err(MemError::Revoked);
            }
            match self.windows.cmpxchg(seen, seen.wrapping_add(1), Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// See [`Mr::bind`].
    pub(super) fn unbind(&self) {
        self.windows.fetch_sub(1, Full);
    }

    #[inline]
    pub(super) fn allows(&self, pd: PdId, key: u32, access: Access) -> bool {
        self.key == key && self.pd == pd && self.access.contains(access)
    }

    /// Its access rights.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The addresses of its bytes.
    #[inline]
    pub(crate) fn range(&self) -> Range {
        self.range
    }

    /// The memory of the region, and where `va` is in it, if the `len` bytes from there are all
    /// inside. The region cannot be deregistered until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked.
    // The callers match on the memory again. Compiled into them, both are one match.
    #[inline(always)]
    pub(super) fn open(
        &self,
        side: Side,
        va: u64,
        len: u64,
    ) -> Result<(OpenMr<'_>, u64), MemError> {
        let offset = self.range.offset(va, len)?;
        Ok(match &self.memory {
            Memory::User(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                (OpenMr::User(memory), offset)
            }
            Memory::Kernel(revocable) => {
                let memory = revocable.try_access().ok_or(MemError::Revoked)?;
                match side {
                    Side::Local => (OpenMr::Kernel(memory), va),
                    Side::Peer => (OpenMr::PeerKernel(memory), va),
                }
            }
            Memory::OnDemand(odp) => {
                let memory = odp.memory.try_access().ok_or(MemError::Revoked)?;
                (OpenMr::OnDemand(memory), offset)
            }
        })
    }

    /// Calls `each` with the `len` bytes at `va`, chunk by chunk.
    ///
    /// Any context with bottom halves disabled; `each` must not close a region.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent; Fault also if `each` returns `None`.
    #[inline]
    pub(super) fn for_each_chunk(
        &self,
        side: Side,
        va: u64,
        len: usize,
        mut each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        match self.open(side, va, len as u64)? {
            (OpenMr::User(memory), at) => memory.for_each_chunk(at, len, each),
            (OpenMr::Kernel(memory), at) => memory.for_each_chunk(at, len, each),
            (OpenMr::PeerKernel(memory), at) => memory.for_each_peer_chunk(at, len, &mut each),
            (OpenMr::OnDemand(memory), at) => return Ok(memory.for_each_chunk(at, len, each)?),
        }
        .ok_or(MemError::Fault)
    }

    /// Acts on the advice on `len` bytes at `va`: nothing is to be done for memory that is pinned.
    /// Process context, sleeps. EFAULT if they are not all inside, or the process does not have
    /// them.
    pub(super) fn advise(&self, advice: Advice, va: u64, len: u64) -> Result {
        let offset = self.range.offset(va, len).map_err(|_| EFAULT)?;
        let Memory::OnDemand(odp) = &self.memory else {
            return Ok(());
        };
        let Advice { fault, write, wait } = advice;
        // Only a thread of the process itself waits: see `rdma::fault`.
        let is_owner = || {
            odp.memory
                .try_access()
                .is_some_and(|memory| memory.start().is_some())
        };
        if fault && !(wait && is_owner()) {
            // Pages that the process does not have are left out, without an error.
            let _ = OdpMr::want(odp, offset, 0, len, write);
            return Ok(());
        }
        let memory = odp.hold().ok_or(EFAULT)?;
        memory.prefetch(offset, len, write, fault)
    }

    /// Whether an access to bytes within the region may still fail: its pages may be missing, or it
    /// is the kernel's address space, which has gaps, and a peer names the address.
    #[inline]
    pub(super) fn may_fault(&self, side: Side) -> bool {
        match self.memory {
            Memory::User(_) => false,
            Memory::Kernel(_) => side == Side::Peer,
            Memory::OnDemand(_) => true,
        }
    }

    /// An access to `len` bytes at `va`, for writing if `write`, has found a page missing: asks for
    /// the pages. Accesses will go to `rest` bytes from there on. Returns why the access fails: see
    /// [`OdpMr::want`].
    ///
    /// Softirq or process context.
    #[cold]
    pub(super) fn want(&self, va: u64, len: u64, rest: u64, write: bool) -> MemError {
        let Memory::OnDemand(odp) = &self.memory else {
            return MemError::Fault;
        };
        let Ok(offset) = self.range.offset(va, len) else {
            return MemError::Bounds;
        };
        let ahead = rest.min(self.range.length.saturating_sub(offset));
        OdpMr::want(odp, offset, len, ahead.min(MAX_AHEAD), write)
    }

    /// Whether the region is still open. Any context.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        match &self.memory {
            Memory::User(revocable) => revocable.is_open(),
            Memory::Kernel(revocable) => revocable.is_open(),
            Memory::OnDemand(odp) => odp.memory.is_open(),
        }
    }

    /// Copies bytes to `va`. Any context with bottom halves disabled. The caller has checked the
    /// right to write.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent.
    #[inline]
    pub(super) fn write(&self, side: Side, va: u64, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        let (open, at) = self.open(side, va, bytes.len() as u64)?;
        open.write(at, bytes)
    }

    /// Calls `access` with the word at `va`: an operation on it is atomic with respect to other
    /// regions and to the processor (IB_ATOMIC_GLOB).
    ///
    /// Any context with bottom halves disabled. The caller has checked the right to write.
    ///
    /// # Errors
    ///
    /// Misaligned if `va` or the address in memory is no multiple of 8; Access if a peer names an
    /// address of the kernel; otherwise the [`MemError`]s.
    pub(super) fn with_word<T>(
        &self,
        side: Side,
        va: u64,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<T, AccessError> {
        if va & 7 != 0 {
            return Err(AccessError::Misaligned);
        }
        match self.open(side, va, 8)? {
            (OpenMr::User(memory), at) => memory.word(at).map(access),
            (OpenMr::Kernel(memory), at) => memory.word(at).map(access),
            // The right to atomics is not one that IB_PD_UNSAFE_GLOBAL_RKEY gives.
            (OpenMr::PeerKernel(_), _) => return Err(AccessError::Access),
            (OpenMr::OnDemand(memory), at) => {
                memory.with_word(at, access).map_err(MemError::from)?
            }
        }
        // `va` is aligned, but not the address in memory: iova and start differ in their low bits.
        .ok_or(AccessError::Misaligned)
    }
}
