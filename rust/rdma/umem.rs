// SPDX-License-Identifier: GPL-2.0

//! Memory behind memory regions: pinned pages of a process, or the kernel's own.
//!
//! The owner of the memory may change it at any time. So there are copies in and out, and atomic
//! operations, never references. 64-bit only: every page is reached through the kernel's direct
//! map.

use super::access::Access;
use super::copy::copy;
use super::device::Device;
use super::strided::StridedSrc;
use crate::ffi;
use crate::sync::memory::GFP_CHARGED;
use core::ops::Range;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Release};

#[cfg(not(CONFIG_64BIT))]
compile_error!("pages are reached through the kernel's direct map");

/// A 64-bit word of registered memory, in the processor's byte order. Each operation is atomic with
/// respect to all other accesses.
pub(crate) struct Word<'a>(&'a Atomic<u64>);

impl<'a> Word<'a> {
    /// The word at `at`; `None` if it is not aligned.
    ///
    /// # Safety
    ///
    /// `at` is valid for reading and writing 8 bytes during `'a`, and other accesses to them count
    /// as atomic.
    #[inline]
    pub(super) unsafe fn at(at: *mut u8) -> Option<Self> {
        let at = at.cast::<u64>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: by the requirement of this function; the alignment is checked.
        Some(Word(unsafe { Atomic::from_ptr(at) }))
    }

    /// Replaces the word by `swap` if it is `compare`; returns the old value.
    #[inline]
    pub(crate) fn cmpxchg(&self, compare: u64, swap: u64) -> u64 {
        match self.0.cmpxchg(compare, swap, Full) {
            Ok(old) | Err(old) => old,
        }
    }

    /// Adds to the word, wrapping; returns the old value.
    #[inline]
    pub(crate) fn fetch_add(&self, add: u64) -> u64 {
        self.0.fetch_add(add, Full)
    }

    /// Stores `value`, which no access finds in part. Earlier stores are visible before it.
    #[inline]
    pub(crate) fn store(&self, value: u64) {
        self.0.store(value, Release);
    }
}

/// Pages of a process, pinned and accounted to its limit of locked memory: a [`struct ib_umem`].
///
/// [`struct ib_umem`]: srctree/include/rdma/ib_umem.h
///
/// # Invariants
///
/// `umem` is a registration that this owns, of memory that starts `first` bytes into the first of
/// `pages` and is `len` bytes long. `pages` are the kernel addresses of its pages, each valid for a
/// page while it is pinned. `ib` is referenced.
pub(crate) struct UserMemory {
    umem: NonNull<ffi::ib_umem>,
    ib: NonNull<ffi::ib_device>,
    pages: KVVec<*mut kernel::ffi::c_void>,
    start: u64,
    first: usize,
    len: u64,
    writable: bool,
}

// SAFETY: pinned pages belong to no thread, and the registration may be released by any.
unsafe impl Send for UserMemory {}
// SAFETY: all access is by copies and atomic operations, which may run at the same time.
unsafe impl Sync for UserMemory {}

impl UserMemory {
    /// Pins `len` bytes at address `start` of the calling process. Process context.
    ///
    /// EINVAL for a range that wraps or is empty; ENOMEM over the limit of locked memory; EFAULT or
    /// another error of pinning if the process has no such memory, or if `access` includes writing
    /// and the process must not write it; EOPNOTSUPP for on-demand paging ([`super::odp`]).
    pub(crate) fn pin<D>(dev: &Device<D>, start: u64, len: u64, access: Access) -> Result<Self> {
        let ib = NonNull::new(dev.as_raw()).ok_or(EINVAL)?;
        // SAFETY: the device is valid; any address and length may be asked for.
        let umem = unsafe { ffi::oxe_umem_get(ib.as_ptr(), start, len, access.raw()) };
        let umem = NonNull::new(from_err_ptr(umem)?).ok_or(EINVAL)?;
        // SAFETY: the device is valid. The registration needs it to the end.
        unsafe { ffi::oxe_ib_device_hold(ib.as_ptr()) };
        // INVARIANT: `pages` is still empty, so `len` is 0 until it is filled.
        let mut memory = UserMemory {
            umem,
            ib,
            pages: KVVec::new(),
            start,
            first: start as usize % PAGE_SIZE,
            len: 0,
            writable: access.is_writable(),
        };
        // SAFETY: the registration is valid.
        let n = unsafe { ffi::oxe_umem_page_count(umem.as_ptr()) };
        memory
            .pages
            .extend_with(n, core::ptr::null_mut(), GFP_CHARGED)?;
        // SAFETY: the registration is valid, and there is room for `n` addresses.
        let found = unsafe { ffi::oxe_umem_pages(umem.as_ptr(), memory.pages.as_mut_ptr(), n) };
        if found != n {
            return Err(EINVAL);
        }
        // INVARIANT: now they are all there.
        memory.len = len;
        Ok(memory)
    }

    /// The address of the memory in the process, if that is the calling one. Process context.
    pub(crate) fn start(&self) -> Option<u64> {
        // SAFETY: the registration is valid.
        unsafe { ffi::oxe_umem_is_of_caller(self.umem.as_ptr()) }.then_some(self.start)
    }

    /// Calls `each` for the `len` bytes from `offset`, page by page: with the address of each part,
    /// and its range within the `len` bytes. `None` if they are not all inside, or a page is
    /// missing.
    // Calls would cost a copy of a page 4 %.
    #[inline(always)]
    fn for_each_page(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(*mut u8, Range<usize>),
    ) -> Option<()> {
        if offset.checked_add(len as u64)? > self.len {
            return None;
        }
        let mut at = usize::try_from(offset).ok()?.checked_add(self.first)?;
        let mut done = 0;
        while done < len {
            let page = self.pages.get(at / PAGE_SIZE)?.cast::<u8>();
            let skip = at % PAGE_SIZE;
            let n = (PAGE_SIZE - skip).min(len - done);
            // SAFETY: `skip` is less than the page's size.
            each(unsafe { page.add(skip) }, done..done + n);
            at += n;
            done += n;
        }
        Some(())
    }

    /// Calls `each` with the `len` bytes from `offset` on, chunk by chunk. `None` if they are not
    /// all inside, or `each` returns it. Any context.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Option<()> {
        let mut result = Some(());
        self.for_each_page(offset, len, |at, range| {
            if result.is_some() {
                // SAFETY: the page is pinned while `self` lives, and the chunk is inside it.
                result = each(unsafe { StridedSrc::at(at, range.len()) });
            }
        })?;
        result
    }

    /// Copies bytes to `offset`. `None` if they would not all be inside, or the memory was
    /// registered for reading only. Any context.
    #[inline]
    pub(crate) fn write(&self, offset: u64, bytes: StridedSrc<'_>) -> Option<()> {
        if !self.writable {
            return None;
        }
        self.for_each_page(offset, bytes.len(), |at, range| {
            if let Some(part) = bytes.part(range) {
                // SAFETY: the page is pinned for writing, and the chunk is inside it.
                unsafe { part.copy_to(at) };
            }
        })
    }

    /// The word at `offset`. `None` if it is not inside, not aligned, or the memory was registered
    /// for reading only. Any context.
    pub(crate) fn word(&self, offset: u64) -> Option<Word<'_>> {
        if !self.writable {
            return None;
        }
        let mut found = None;
        self.for_each_page(offset, 8, |at, range| {
            if range.len() == 8 {
                found = Some(at);
            }
        })?;
        // SAFETY: the page is pinned for writing while `self` lives, and the 8 bytes are inside it.
        // Processes may access them in any way, which races as their own accesses do.
        unsafe { Word::at(found?) }
    }
}

impl Drop for UserMemory {
    /// Process context: unpins the pages.
    fn drop(&mut self) {
        // SAFETY: the registration is ours and the device it names still there. Nothing uses the
        // pages any more.
        unsafe { ffi::ib_umem_release(self.umem.as_ptr()) };
        // SAFETY: we have a reference, by the type's invariant.
        unsafe { ffi::oxe_ib_device_release(self.ib.as_ptr()) };
    }
}

/// The kernel's memory, by its virtual addresses.
///
/// Kernel users name memory this way on a device that has no DMA of its own, with the key of the
/// region that `Driver::get_dma_mr` registers, or by the pages of one of `Driver::alloc_mr`. The
/// glue makes this value for these calls. The kernel gives the key to kernel users, and the user of
/// the key answers for the addresses as for any pointer.
///
/// # Invariants
///
/// The driver that holds it passes addresses on that one of these users has named, in a work
/// request of a queue pair of the region's protection domain, or for the pages of the region, and
/// only until the request completes or the region is invalidated. [`KernelMemory::new`] demands
/// that of the driver. It is not in the arguments' types: between the work request and the access
/// the address is bytes in a ring and a number in a lookup, neither of which could carry a proof.
/// The check that stands for one is that of the protection domain: a process has none of the
/// kernel's.
///
/// Peers get the key by way of `IB_PD_UNSAFE_GLOBAL_RKEY`, about which the kernel warns. No
/// consumer answers for the addresses that a peer names: there are functions of their own for them.
pub(crate) struct KernelMemory(());

/// Bytes that are copied to the stack, and on from there, at a time.
const PEER_PART: usize = 256;

/// Calls `each` with the ranges of consecutive parts of `len` bytes, until it returns `None`.
fn for_each_part(len: usize, mut each: impl FnMut(Range<usize>) -> Option<()>) -> Option<()> {
    let mut done = 0;
    while done < len {
        let end = len.min(done.checked_add(PEER_PART)?);
        each(done..end)?;
        done = end;
    }
    Some(())
}

impl KernelMemory {
    /// # Safety
    ///
    /// It is for the region of a kernel user, and for a driver that keeps the type's invariant.
    pub(super) unsafe fn new() -> Self {
        // INVARIANT: by the requirement of this function.
        KernelMemory(())
    }

    /// The pointer for `addr`, if `len` bytes from there are in the kernel's half of the address
    /// space.
    #[inline]
    fn at(addr: u64, len: usize) -> Option<*mut u8> {
        addr.checked_add(len as u64)?;
        // Addresses of the kernel have the highest bit set, those of processes have not.
        // CAST: pointers have 64 bits, and this is one that C has made a number of.
        ((addr as i64) < 0).then_some(addr as *mut u8)
    }

    /// Copies the bytes from address `addr` on to `out`. `None` if they are not the kernel's. Any
    /// context.
    ///
    /// # Safety
    ///
    /// A kernel user has named the address, and the bytes may be read if they are the kernel's.
    #[inline]
    pub(super) unsafe fn read(addr: u64, out: &mut [u8]) -> Option<()> {
        let from = Self::at(addr, out.len())?;
        // SAFETY: by the requirement of this function.
        unsafe { copy(from, out.as_mut_ptr(), out.len()) };
        Some(())
    }

    /// Calls `each` with the `len` bytes at address `addr`. `None` if they are not the kernel's, or
    /// `each` returns it. Any context.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        addr: u64,
        len: usize,
        each: impl FnOnce(StridedSrc<'_>) -> Option<()>,
    ) -> Option<()> {
        let at = Self::at(addr, len)?;
        // SAFETY: by the type's invariant a kernel user has named this memory, and owns it until
        // the request completes.
        each(unsafe { StridedSrc::at(at, len) })
    }

    /// Copies bytes to address `addr`. `None` if they are not the kernel's. Any context.
    #[inline]
    pub(crate) fn write(&self, addr: u64, bytes: StridedSrc<'_>) -> Option<()> {
        let to = Self::at(addr, bytes.len())?;
        // SAFETY: by the type's invariant a kernel user has named this memory, and owns it until
        // the request completes.
        unsafe { bytes.copy_to(to) };
        Some(())
    }

    /// As [`KernelMemory::for_each_chunk`], for a peer. `None` also if one of the addresses is not
    /// that of memory, in the direct map or the kernel's image. Any context.
    ///
    /// Consumers map pages and buffers of the page or slab allocator, which are in the direct map;
    /// the DMA API forbids others. The bytes are copied to the stack, by loads that may fail, and
    /// on from there: a check before a plain copy might be out of date when that copy is made.
    pub(crate) fn for_each_peer_chunk(
        &self,
        addr: u64,
        len: usize,
        each: &mut dyn FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Option<()> {
        Self::at(addr, len)?;
        let mut part = [0_u8; PEER_PART];
        for_each_part(len, |range| {
            let part = part.get_mut(..range.len())?;
            let from = Self::at(addr.checked_add(range.start as u64)?, part.len())?;
            let to = part.as_mut_ptr().cast();
            // SAFETY: the destination is writable; the source may be any address.
            let copied = unsafe { ffi::oxe_nofault_read(to, from.cast(), part.len()) };
            copied.then(|| each(StridedSrc::new(part)))?
        })
    }

    /// As [`KernelMemory::write`], for a peer. `None` also if one of the addresses is not that of
    /// memory that the kernel may write. Bytes before that one may have been written. Any context.
    pub(crate) fn write_for_peer(&self, addr: u64, bytes: StridedSrc<'_>) -> Option<()> {
        Self::at(addr, bytes.len())?;
        let mut part = [0_u8; PEER_PART];
        for_each_part(bytes.len(), |range| {
            let part = part.get_mut(..range.len())?;
            let to = Self::at(addr.checked_add(range.start as u64)?, part.len())?;
            // SAFETY: `part` has room for as many bytes.
            unsafe { bytes.part(range)?.copy_to(part.as_mut_ptr()) };
            // SAFETY: the source is readable. The destination may be any address: writing there
            // fails, or does to the kernel what its consumer has let the peer do.
            unsafe { ffi::oxe_nofault_write(to.cast(), part.as_ptr().cast(), part.len()) }
                .then_some(())
        })
    }

    /// The word at address `addr`. `None` if it is not the kernel's or not aligned. Any context.
    pub(crate) fn word(&self, addr: u64) -> Option<Word<'_>> {
        let at = Self::at(addr, 8)?;
        // SAFETY: by the type's invariant a kernel user has named this memory, and owns it until
        // the request completes.
        unsafe { Word::at(at) }
    }
}
