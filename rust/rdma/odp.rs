// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: memory of a process whose pages are not pinned.
//!
//! A page is made present when it is needed ([`OdpMemory::fault`]), and the memory manager takes it
//! back when it likes. A gate guards the table of pages: copies enter it, and a context that
//! changes the table shuts it, so that no copy is in progress when a page goes.

use super::access::Access;
use super::device::Device;
use super::fault::Held;
use super::strided::StridedSrc;
use super::umem::Word;
use crate::ffi;
use crate::sync::bh::{cond_resched_killable, BhGuard};
use crate::sync::gate::{Entered, Gate};
use crate::sync::memory::GFP_CHARGED;
use core::ops::Range;
use core::ptr::NonNull;
use kernel::error::{from_err_ptr, to_result};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// The reason that memory cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OdpError {
    /// A page is not present now: see [`OdpMemory::fault`].
    NotPresent,
    /// The process has no such memory, or must not write it.
    Fault,
}

/// A page of the table.
///
/// # Invariants
///
/// It is [`Slot::ABSENT`], or the kernel address of a page, with [`Slot::WRITABLE`] set if the page
/// may be written. The page stays, and stays in the kernel's map, until the slot is changed.
#[derive(Clone, Copy)]
struct Slot(usize);

impl Slot {
    /// No page, as far as is known.
    const ABSENT: Self = Slot(0);
    /// A flag: the page may be written.
    const WRITABLE: usize = 1;

    /// The page, for writing if `write`.
    #[inline]
    fn page(self, write: bool) -> Result<*mut u8, OdpError> {
        if self.0 == 0 || write && self.0 & Self::WRITABLE == 0 {
            return Err(OdpError::NotPresent);
        }
        Ok(core::ptr::with_exposed_provenance_mut(
            self.0 & !Self::WRITABLE,
        ))
    }
}

/// How many slots are changed, and how many pages faulted in, at a time.
const STEP: usize = 1024;

/// The table of pages, at an address that the memory manager's notifier knows.
#[repr(C)]
struct Pages {
    /// First: the notifier has a pointer to it.
    owner: ffi::oxe_odp_owner,
    slots: Gate<KVVec<Slot>>,
}

impl Pages {
    /// Calls `change` with the slots from `first` on, up to `count`, each while no copy is in
    /// progress. Process context.
    fn change(&self, first: usize, count: usize, mut change: impl FnMut(&mut Slot)) {
        let end = first.saturating_add(count);
        let mut at = first;
        while at < end {
            // Bottom halves have their turn between two steps.
            let _bh = BhGuard::new();
            let mut slots = self.slots.seize();
            let next = end.min(at.saturating_add(STEP));
            slots.iter_mut().take(next).skip(at).for_each(&mut change);
            slots.open();
            at = next;
        }
    }

    /// The pages go: they are marked as changed if they may have been, and no copy finds them any
    /// more.
    ///
    /// # Safety
    ///
    /// `owner` is the first member of a `Pages` that lives until this returns. The region's mutex
    /// is held.
    unsafe extern "C" fn gone(owner: *mut ffi::oxe_odp_owner, first: usize, count: usize) {
        // SAFETY: by the requirement of this function. A `Pages` is shared by all that know it.
        let pages = unsafe { &*owner.cast::<Pages>() };
        pages.change(first, count, |slot| {
            if let Ok(page) = slot.page(true) {
                // SAFETY: the page is there until the slot is changed.
                unsafe { ffi::oxe_odp_mark_dirty(page.cast()) };
            }
            *slot = Slot::ABSENT;
        });
    }
}

/// Memory of a process, not pinned: a [`struct ib_umem_odp`].
///
/// [`struct ib_umem_odp`]: srctree/include/rdma/ib_umem_odp.h
///
/// # Invariants
///
/// `umem` is a registration that this owns, of memory that starts `first` bytes into the first of
/// `pages` and is `len` bytes long. `pages` came from a box that this owns. `ib` is referenced.
pub(crate) struct OdpMemory {
    umem: NonNull<ffi::ib_umem>,
    ib: NonNull<ffi::ib_device>,
    pages: NonNull<Pages>,
    start: u64,
    first: usize,
    len: u64,
    writable: bool,
}

// SAFETY: the registration belongs to no thread, and may be released by any.
unsafe impl Send for OdpMemory {}
// SAFETY: all access is by copies and atomic operations, which may run at the same time; the gate
// guards the table.
unsafe impl Sync for OdpMemory {}

impl OdpMemory {
    /// The process's address of byte `offset`.
    pub(crate) fn address(&self, offset: u64) -> u64 {
        self.start.wrapping_add(offset)
    }

    /// Registers `len` bytes at address `start` of the calling process. Process context.
    ///
    /// EOVERFLOW or EINVAL for a range that wraps or is empty; ENOMEM.
    pub(crate) fn new<D>(dev: &Device<D>, start: u64, len: u64, access: Access) -> Result<Self> {
        let ib = NonNull::new(dev.as_raw()).ok_or(EINVAL)?;
        // A region of all memory of the process, which the device does not offer.
        if len == u64::MAX {
            return Err(EINVAL);
        }
        // The table comes first, as it is charged to the process: ib_core makes one of the same
        // size that is not.
        let count = (start % PAGE_SIZE as u64)
            .saturating_add(len)
            .div_ceil(PAGE_SIZE as u64);
        let table = KVVec::with_capacity(usize::try_from(count)?, GFP_CHARGED)?;
        let pages = Pages {
            owner: ffi::oxe_odp_owner {
                gone: Some(Pages::gone),
            },
            slots: Gate::new(KVVec::new()),
        };
        let pages = KBox::into_raw(KBox::new(pages, GFP_CHARGED)?);
        // With the hint ib_core would count in huge pages, and ask for some; the table has small
        // ones.
        let access = access.without(Access::HUGETLB);
        // SAFETY: the device is valid, and the owner lives until the registration is released; any
        // address and length may be asked for.
        let umem = from_err_ptr(unsafe {
            ffi::oxe_odp_get(
                ib.as_ptr(),
                start,
                len,
                access.raw(),
                &raw mut (*pages).owner,
            )
        })
        .and_then(|umem| NonNull::new(umem).ok_or(EINVAL))
        .inspect_err(|_| {
            // SAFETY: it came from a box, and no registration knows it.
            drop(unsafe { KBox::from_raw(pages) });
        })?;
        // SAFETY: the device is valid. The registration needs it to the end.
        unsafe { ffi::oxe_ib_device_hold(ib.as_ptr()) };
        // SAFETY: a pointer out of a box is not null. The registration is valid.
        let (pages, first) = unsafe {
            let pages = NonNull::new_unchecked(pages);
            (pages, ffi::oxe_odp_first_byte(umem.as_ptr()))
        };
        let memory = OdpMemory {
            umem,
            ib,
            pages,
            start,
            first,
            len,
            writable: access.is_writable(),
        };
        memory.fill(table)?;
        Ok(memory)
    }

    /// Fills the table with slots, none of which has a page, and opens the gate. ENOMEM.
    fn fill(&self, mut table: KVVec<Slot>) -> Result {
        // SAFETY: the registration is valid.
        let count = unsafe { ffi::oxe_odp_page_count(self.umem.as_ptr()) };
        table.extend_with(count, Slot::ABSENT, GFP_CHARGED)?;
        let _bh = BhGuard::new();
        // Nothing was dropped by this: the table was empty.
        let mut slots = self.pages().slots.seize();
        core::mem::swap(&mut *slots, &mut table);
        slots.open();
        Ok(())
    }

    fn pages(&self) -> &Pages {
        // SAFETY: by the type's invariant; it is only ever shared.
        unsafe { self.pages.as_ref() }
    }

    /// The address of the memory in the process, if that is the calling one. Process context.
    pub(crate) fn start(&self) -> Option<u64> {
        // SAFETY: the registration is valid.
        unsafe { ffi::oxe_umem_is_of_caller(self.umem.as_ptr()) }.then_some(self.start)
    }

    /// The place of byte `offset` in the pages, if `len` bytes from there are all inside.
    fn place(&self, offset: u64, len: u64) -> Option<usize> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        usize::try_from(offset).ok()?.checked_add(self.first)
    }

    /// Calls `each` for the `len` bytes from `offset`, page by page: with the address of each part,
    /// and its range within the `len` bytes. Calls it for none if one is missing.
    ///
    /// Any context with bottom halves disabled.
    fn for_each_page(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        mut each: impl FnMut(*mut u8, Range<usize>),
    ) -> Result<(), OdpError> {
        if write && !self.writable {
            return Err(OdpError::Fault);
        }
        let at = self.place(offset, len as u64).ok_or(OdpError::Fault)?;
        let slots = self.pages().slots.enter().ok_or(OdpError::NotPresent)?;
        let parts = Parts { at, len, done: 0 };
        for (index, _, _) in parts {
            find(&slots, index, write)?;
        }
        for (index, skip, range) in parts {
            let page = find(&slots, index, write)?;
            // SAFETY: `skip` is less than the page's size.
            each(unsafe { page.add(skip) }, range);
        }
        Ok(())
    }

    /// Calls `each` with the `len` bytes from `offset` on, chunk by chunk.
    ///
    /// Any context with bottom halves disabled. Fault also if `each` returns `None`.
    pub(crate) fn for_each_chunk(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), OdpError> {
        let mut result = Some(());
        self.for_each_page(offset, len, false, |at, range| {
            if result.is_some() {
                // SAFETY: the page stays until the gate is shut, and the chunk is inside it.
                result = each(unsafe { StridedSrc::at(at, range.len()) });
            }
        })?;
        result.ok_or(OdpError::Fault)
    }

    /// Copies bytes to `offset`: all of them or none. Any context with bottom halves disabled.
    pub(crate) fn write(&self, offset: u64, bytes: StridedSrc<'_>) -> Result<(), OdpError> {
        self.for_each_page(offset, bytes.len(), true, |at, range| {
            if let Some(part) = bytes.part(range) {
                // SAFETY: the page is there for writing until the gate is shut, and the chunk is
                // inside it.
                unsafe { part.copy_to(at) };
            }
        })
    }

    /// Calls `access` with the word at `offset`; the result is `None` if that is not aligned. Any
    /// context with bottom halves disabled.
    pub(crate) fn with_word<T>(
        &self,
        offset: u64,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<Option<T>, OdpError> {
        let mut access = Some(access);
        let mut result = None;
        self.for_each_page(offset, 8, true, |at, range| {
            if range.len() != 8 {
                return;
            }
            // SAFETY: the page is there for writing until the gate is shut, and the 8 bytes are
            // inside it. Processes may access them in any way, which races as their own accesses
            // do.
            let word = unsafe { Word::at(at) };
            result = word.and_then(|word| Some(access.take()?(word)));
        })?;
        Ok(result)
    }

    /// Makes the pages of `len` bytes from `offset` on present, for writing if `write`, and those
    /// of the `ahead` bytes from there on, if it can.
    ///
    /// Process context, of any process; sleeps.
    ///
    /// # Errors
    ///
    /// The offset of a byte, among the first `len`, that the process does not have, or must not
    /// write to, or that the kernel has no access to. No error if a page may be there later: an
    /// access that comes again asks again.
    pub(crate) fn fault(
        &self,
        held: &Held<'_>,
        (offset, len, ahead): (u64, u64, u64),
        write: bool,
    ) -> Result<(), u64> {
        let all = self.span(offset, ahead).filter(|_| ahead > len);
        if all.is_some_and(|span| self.map_all(held, span, write).is_ok()) {
            return Ok(());
        }
        let (first, count) = self.span(offset, len).ok_or(offset)?;
        for page in first..first.saturating_add(count) {
            match self.map(page, 1, write, true) {
                Ok(()) | Err(EBUSY) | Err(ENOMEM) => {}
                // No page is needed any more.
                Err(EINTR) => return Ok(()),
                Err(_) => {
                    let at = page.saturating_mul(PAGE_SIZE).saturating_sub(self.first);
                    return Err(offset.max(at as u64));
                }
            }
        }
        Ok(())
    }

    /// Looks up the pages of `len` bytes from `offset` on, and makes them present if `fault`.
    ///
    /// Process context, of any process; sleeps. EFAULT if the process has not all of them, if the
    /// kernel has no access to one, or if they are not all inside; EINTR if the caller is killed.
    pub(crate) fn prefetch(&self, offset: u64, len: u64, write: bool, fault: bool) -> Result {
        let span = self.span(offset, len).ok_or(EFAULT)?;
        // The notifier keeps the structure, not the memory of a process that has ended.
        // SAFETY: the registration is valid.
        if !unsafe { ffi::oxe_odp_get_mm(self.umem.as_ptr()) } {
            return Err(EINVAL);
        }
        let mut done = Ok(());
        for (first, count) in steps(span) {
            done = self.map(first, count, write, fault);
            // The caller works for itself here, and is charged for it.
            while done == Err(EBUSY) && !cond_resched_killable() {
                done = self.map(first, count, write, fault);
            }
            if done.is_err() {
                break;
            }
        }
        // SAFETY: the registration is valid, and we have a reference.
        unsafe { ffi::oxe_odp_put_mm(self.umem.as_ptr()) };
        done
    }

    /// Makes pages present: the first of them, and their number. The errors of [`OdpMemory::map`].
    fn map_all(&self, _held: &Held<'_>, span: (usize, usize), write: bool) -> Result {
        steps(span).try_for_each(|(first, count)| self.map(first, count, write, true))
    }

    /// The pages of `len` bytes from `offset` on: the first, and their number. `None` if they are
    /// not all inside.
    fn span(&self, offset: u64, len: u64) -> Option<(usize, usize)> {
        let at = self.place(offset, len)?;
        let end = at.checked_add(usize::try_from(len).ok()?)?;
        let first = at / PAGE_SIZE;
        Some((first, end.div_ceil(PAGE_SIZE).saturating_sub(first)))
    }

    /// Looks up `count` pages from `first` on, and enters those that are there into the table.
    ///
    /// The caller keeps the memory of the process. EFAULT if the process has not all of them, or
    /// the kernel no access to one; EBUSY, ENOMEM; EINTR if the thread has a fatal signal.
    fn map(&self, first: usize, count: usize, write: bool, fault: bool) -> Result {
        let umem = self.umem.as_ptr();
        if count == 0 || write && !self.writable {
            return if count == 0 { Ok(()) } else { Err(EFAULT) };
        }
        let mut pfns = KVVec::with_capacity(count, GFP_KERNEL)?;
        pfns.extend_with(count, 0, GFP_KERNEL)?;
        // SAFETY: the registration is valid, and the pages are inside: `span` has checked that.
        // `pfns` has a place for each, all zero.
        let mapped = unsafe {
            ffi::oxe_odp_map_and_lock(umem, first, count, write, fault, pfns.as_mut_ptr())
        };
        to_result(mapped)?;
        let mut result = Ok(());
        let mut pfns = pfns.iter();
        self.pages().change(first, count, |slot| {
            let pfn = pfns.next().copied().unwrap_or(0);
            let mut writable = false;
            // SAFETY: the mutex is held, and the number is one that was found under it.
            match from_err_ptr(unsafe { ffi::oxe_odp_page(pfn, &mut writable) }) {
                Err(why) => result = Err(why),
                Ok(page) if page.is_null() => {}
                // INVARIANT: the walk found the page there, and nothing was taken back from its
                // beginning until the mutex was taken; `pfns` is this call's alone. Before the
                // memory manager takes the page back, `Pages::gone` changes the slot, which waits
                // for the mutex. The kernel can read the page at this address: a page leaves the
                // kernel's map before a process gets it, not later.
                Ok(page) => {
                    let flags = if writable { Slot::WRITABLE } else { 0 };
                    *slot = Slot(page.expose_provenance() | flags);
                }
            }
        });
        // SAFETY: we hold the mutex.
        unsafe { ffi::oxe_odp_unlock(umem) };
        result
    }
}

/// Divides pages into steps: the first page, and their number.
fn steps((first, count): (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
    let starts = (0..count).step_by(STEP);
    starts.map(move |at| (first.wrapping_add(at), STEP.min(count.wrapping_sub(at))))
}

/// Page `index` of the table.
#[inline]
fn find(slots: &Entered<'_, KVVec<Slot>>, index: usize, write: bool) -> Result<*mut u8, OdpError> {
    slots.get(index).ok_or(OdpError::Fault)?.page(write)
}

/// The parts of a range that are in one page each: the page, the offset in it, and the range of the
/// bytes that it has.
#[derive(Clone, Copy)]
struct Parts {
    at: usize,
    len: usize,
    done: usize,
}

impl Iterator for Parts {
    type Item = (usize, usize, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.len.checked_sub(self.done).filter(|rest| *rest != 0)?;
        let at = self.at.wrapping_add(self.done);
        let skip = at % PAGE_SIZE;
        let from = self.done;
        self.done = from.wrapping_add(rest.min(PAGE_SIZE.wrapping_sub(skip)));
        Some((at / PAGE_SIZE, skip, from..self.done))
    }
}

impl Drop for OdpMemory {
    /// Process context.
    fn drop(&mut self) {
        // SAFETY: the registration is ours and the device it names still there. The owner of the
        // pages lives until it is released.
        unsafe { ffi::oxe_odp_release(self.umem.as_ptr()) };
        // SAFETY: it came from a box, and the notifier does not know it any more.
        drop(unsafe { KBox::from_raw(self.pages.as_ptr()) });
        // SAFETY: we have a reference, by the type's invariant.
        unsafe { ffi::oxe_ib_device_release(self.ib.as_ptr()) };
    }
}
