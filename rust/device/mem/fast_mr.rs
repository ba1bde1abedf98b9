// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration (IBTA 10.6.4, 10.6.5): a kernel user allocates one, maps
//! pages, and registers and invalidates them by work requests, time and again.

use super::error::MemError;
use super::range::Range;
use crate::device::pd::PdId;
use crate::proto::transport::AccessError;
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::{KernelMemory, Word};
use crate::sync::bh::BhGuard;
use crate::sync::gate::{Entered, Gate};
use crate::sync::memory::GFP_CHARGED;
use core::mem::swap;
use kernel::prelude::*;

/// Pages, by the kernel addresses of their first bytes.
struct Pages {
    list: KVVec<u64>,
    /// The size of a page is 2 to the power of this, in bytes.
    shift: u32,
}

impl Pages {
    /// An empty list with room for `count` pages. ENOMEM.
    fn new(count: usize) -> Result<Self> {
        Ok(Pages {
            list: KVVec::with_capacity(count, GFP_CHARGED)?,
            shift: 0,
        })
    }
}

/// The pages that were mapped last.
struct Mapped {
    pages: Pages,
    /// They are not registered yet.
    fresh: bool,
}

/// The latest registration.
struct Registered {
    key: u32,
    access: Access,
    range: Range,
    pages: Pages,
    memory: KernelMemory,
    /// The region is deallocated: nothing can be registered any more.
    closed: bool,
}

/// A region for fast registration.
pub(crate) struct FastMr {
    pd: PdId,
    /// Kernel users map the next pages before they invalidate the previous ones, so these are two
    /// lists. This gate is never opened.
    mapped: Gate<Mapped>,
    registered: Gate<Registered>,
}

/// The rights and hints that a registration may have.
const FLAGS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::HUGETLB)
    .union(Access::OPTIONAL);

/// Whether a registration may have these rights: peers may write only where the owner may (IBTA
/// 10.6.3.1). ib_core checks the rights that a process asks for, but not those in a work request.
fn are_consistent(access: Access) -> bool {
    let writes = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);
    FLAGS.contains(access) && (access.contains(Access::LOCAL_WRITE) || !access.intersects(writes))
}

/// The parameters of a registration.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) key: u32,
    pub(crate) access: Access,
    pub(crate) range: Range,
}

impl FastMr {
    /// A region of at most `count` pages, with nothing registered; `key` is the one that it would
    /// have. Process context. ENOMEM.
    pub(super) fn new(key: u32, pd: PdId, memory: KernelMemory, count: usize) -> Result<Self> {
        Ok(FastMr {
            pd,
            mapped: Gate::new(Mapped {
                pages: Pages::new(count)?,
                fresh: false,
            }),
            registered: Gate::new(Registered {
                key,
                access: Access::NONE,
                range: Range::default(),
                pages: Pages::new(count)?,
                memory,
                closed: false,
            }),
        })
    }

    /// Forgets the mapped pages; the next ones have this size in bytes. Any context. EINVAL if that
    /// is no power of two; EBUSY if another context maps pages.
    pub(crate) fn start_mapping(&self, page_size: u32) -> Result {
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut mapped = self.mapped.change().ok_or(EBUSY)?;
        mapped.pages.list.clear();
        mapped.pages.shift = page_size.trailing_zeros();
        mapped.fresh = true;
        Ok(())
    }

    /// Maps one more page. Any context. ENOMEM if there is no room for it; EBUSY if another context
    /// maps pages.
    pub(crate) fn map_page(&self, address: u64) -> Result {
        let mut mapped = self.mapped.change().ok_or(EBUSY)?;
        let pushed = mapped.pages.list.push_within_capacity(address);
        pushed.map_err(|_| ENOMEM)
    }

    /// Registers the mapped pages; if none were mapped since the previous registration, the same
    /// ones again. Any context with bottom halves disabled.
    ///
    /// # Errors
    ///
    /// Key if the PD is another one, if the rights do not go together, or if something is
    /// registered still (IBTA 10.6.4: the region must be in the Free state); Bounds if there are
    /// not enough pages; Revoked if the region is deallocated or a context maps pages.
    pub(super) fn register(&self, pd: PdId, wanted: &Registration) -> Result<(), MemError> {
        if self.pd != pd || !are_consistent(wanted.access) {
            return Err(MemError::Key);
        }
        let mut registered = self.registered.change().ok_or(MemError::Key)?;
        let mut mapped = self.mapped.change().ok_or(MemError::Revoked)?;
        if registered.closed {
            return Err(MemError::Revoked);
        }
        if mapped.fresh {
            swap(&mut mapped.pages, &mut registered.pages);
            mapped.fresh = false;
        }
        registered.key = wanted.key;
        registered.access = wanted.access;
        registered.range = wanted.range;
        let (end, capacity) = (registered.end(), registered.capacity());
        if end.ok_or(MemError::Bounds)? > capacity {
            return Err(MemError::Bounds);
        }
        registered.open();
        Ok(())
    }

    /// Ends the registration, if `key` is its key. On return nothing accesses the pages. Any
    /// context with bottom halves disabled, but not during an access to a region.
    ///
    /// # Errors
    ///
    /// Key if the PD or the key is another one. If nothing is registered, and the key was the last
    /// one, Revoked.
    pub(super) fn invalidate(&self, pd: PdId, key: u32) -> Result<(), MemError> {
        if self.pd != pd {
            return Err(MemError::Key);
        }
        let Some(entered) = self.registered.enter() else {
            let registered = self.registered.change().ok_or(MemError::Key)?;
            return Err(if registered.key == key {
                MemError::Revoked
            } else {
                MemError::Key
            });
        };
        if entered.key != key {
            return Err(MemError::Key);
        }
        let generation = entered.generation();
        drop(entered);
        let shut = self.registered.shut(generation);
        shut.map(drop).ok_or(MemError::Revoked)
    }

    /// Ends every use of the region for good, and frees its lists. Process context.
    pub(super) fn close(&self) {
        let mut lists = (KVVec::new(), KVVec::new());
        {
            let _bh = BhGuard::new();
            let mut registered = self.registered.seize();
            registered.closed = true;
            swap(&mut registered.pages.list, &mut lists.0);
            if let Some(mut mapped) = self.mapped.change() {
                swap(&mut mapped.pages.list, &mut lists.1);
            }
        }
    }

    /// The generation and the addresses of the registration, if `key` is its key, and `pd` and
    /// `access` allow its use.
    pub(super) fn admit(&self, pd: PdId, key: u32, access: Access) -> Option<(u32, Range)> {
        let entered = self.registered.enter()?;
        let allowed = self.pd == pd && entered.key == key && entered.access.contains(access);
        allowed.then(|| (entered.generation(), entered.range))
    }

    /// Whether this registration has not ended. Any context.
    pub(super) fn is_open(&self, generation: u32) -> bool {
        self.registered.is_open(generation)
    }

    fn enter(&self, generation: u32) -> Result<Entered<'_, Registered>, MemError> {
        self.registered
            .enter_again(generation)
            .ok_or(MemError::Revoked)
    }

    /// As [`Mr::for_each_chunk`](super::mr::Mr::for_each_chunk), of this registration.
    pub(super) fn for_each_chunk(
        &self,
        generation: u32,
        va: u64,
        len: usize,
        each: &mut dyn FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        let registered = self.enter(generation)?;
        registered.for_each_part(va, len, |at, part| {
            registered.memory.for_each_chunk(at, part.len(), &mut *each)
        })
    }

    /// As [`Mr::write`](super::mr::Mr::write), to this registration.
    pub(super) fn write(
        &self,
        generation: u32,
        va: u64,
        bytes: StridedSrc<'_>,
    ) -> Result<(), MemError> {
        let registered = self.enter(generation)?;
        registered.for_each_part(va, bytes.len(), |at, part| {
            registered.memory.write(at, bytes.part(part)?)
        })
    }

    /// As [`Mr::with_word`](super::mr::Mr::with_word), on this registration.
    pub(super) fn with_word<T>(
        &self,
        generation: u32,
        va: u64,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<T, AccessError> {
        let registered = self.enter(generation)?;
        let mut word = None;
        registered.for_each_part(va, 8, |at, part| {
            if part.len() == 8 {
                word = registered.memory.word(at);
            }
            Some(())
        })?;
        word.map(access).ok_or(AccessError::Misaligned)
    }
}

impl Registered {
    /// The offset of the first byte in the first page.
    fn first(&self) -> u64 {
        self.range.iova & self.page_size().wrapping_sub(1)
    }

    fn page_size(&self) -> u64 {
        1 << self.pages.shift
    }

    /// One past the last byte, counted from the first byte of the first page.
    fn end(&self) -> Option<u64> {
        self.range.iova.checked_add(self.range.length)?;
        self.first().checked_add(self.range.length)
    }

    /// The bytes of all pages.
    fn capacity(&self) -> u64 {
        (self.pages.list.len() as u64).saturating_mul(self.page_size())
    }

    /// Calls `each` for the `len` bytes at `va`, page by page: with the kernel address of each
    /// part, and its range within the `len` bytes.
    ///
    /// # Errors
    ///
    /// Bounds; Fault if `each` returns `None`.
    fn for_each_part(
        &self,
        va: u64,
        len: usize,
        mut each: impl FnMut(u64, core::ops::Range<usize>) -> Option<()>,
    ) -> Result<(), MemError> {
        let mut at = self
            .first()
            .wrapping_add(self.range.offset(va, len as u64)?);
        let (mut done, size) = (0, self.page_size());
        while done < len {
            let skip = at & size.wrapping_sub(1);
            let page = self.pages.list.get((at >> self.pages.shift) as usize);
            let n = size.wrapping_sub(skip).min(len.saturating_sub(done) as u64);
            let end = done.saturating_add(n as usize);
            let address = page.ok_or(MemError::Bounds)?.wrapping_add(skip);
            each(address, done..end).ok_or(MemError::Fault)?;
            at = at.wrapping_add(n);
            done = end;
        }
        Ok(())
    }
}
