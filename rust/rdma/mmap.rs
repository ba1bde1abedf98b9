// SPDX-License-Identifier: GPL-2.0

//! Mappings of shared buffers: a process is told an offset, and maps the buffer there.
//!
//! ib_core keeps the offsets of a process's context in a table. An entry of ours holds its buffer;
//! a mapping, once made, holds the pages by itself, so it outlives entry, object and context.
//!
//! Entries must leave the table before the context is freed, whoever may still hold a [`Cookie`]:
//! the context has a [`Registry`] of them, from which an entry is removed exactly once, by its
//! cookie or with the context.

use super::shared::SharedBuf;
use crate::ffi;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;

/// An entry of the table, on the heap.
#[repr(C)]
pub(super) struct Entry {
    c: Opaque<ffi::rdma_user_mmap_entry>,
    buf: Arc<SharedBuf>,
}

/// A pointer to an entry that is in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EntryPtr(NonNull<ffi::rdma_user_mmap_entry>);

// SAFETY: entries belong to no thread.
unsafe impl Send for EntryPtr {}

/// The entries of one context.
///
/// # Invariants
///
/// The entries listed are those in the context's table, each with the reference that insertion
/// gave. The context is valid while there are any.
#[pin_data]
pub(super) struct Registry {
    #[pin]
    entries: Mutex<KVec<EntryPtr>>,
}

impl Registry {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { entries <- kernel::new_mutex!(KVec::new(), "oxe_mmap") }),
            GFP_KERNEL,
        )
    }

    /// Makes `buf` mappable in `context`; gives the cookie, and the offset in bytes for the process
    /// to map at.
    ///
    /// # Safety
    ///
    /// `context` is valid and the one this registry belongs to; [`Registry::close`] is called
    /// before it is freed, and this is not called after that.
    pub(super) unsafe fn insert(
        self: &Arc<Self>,
        context: *mut ffi::ib_ucontext,
        buf: &Arc<SharedBuf>,
    ) -> Result<(Cookie, u64)> {
        if !buf.is_mappable() {
            return Err(EINVAL);
        }
        let mut entries = self.entries.lock();
        entries.reserve(1, GFP_KERNEL)?;
        let entry = KBox::new(
            Entry {
                c: Opaque::zeroed(),
                buf: buf.clone(),
            },
            GFP_KERNEL,
        )?;
        let raw = KBox::into_raw(entry);
        // SAFETY: the context is valid by the requirement of this function. The entry is on the
        // heap to stay until `mmap_free`; its `c` is the first member, so pointers to both are the
        // same.
        let inserted = unsafe { ffi::rdma_user_mmap_entry_insert(context, raw.cast(), buf.len()) };
        if let Err(error) = to_result(inserted) {
            // SAFETY: the table did not take it, so it is still ours.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(error);
        }
        // SAFETY: insertion filled in the entry, whose offset does not change.
        let offset = unsafe { (*raw.cast::<ffi::rdma_user_mmap_entry>()).start_pgoff };
        let entry = EntryPtr(NonNull::new(raw.cast()).ok_or(EINVAL)?);
        // INVARIANT: it is in the table now. There is room, so this does not fail.
        let _ = entries.push_within_capacity(entry);
        drop(entries);
        let cookie = Cookie {
            registry: self.clone(),
            entry,
        };
        Ok((cookie, (offset as u64).wrapping_mul(PAGE_SIZE as u64)))
    }

    /// Takes `entry` out of the list and the table, if it is still there.
    fn remove(&self, entry: EntryPtr) {
        let mut entries = self.entries.lock();
        let Some(index) = entries.iter().position(|e| *e == entry) else {
            return;
        };
        let _ = entries.remove(index);
        // SAFETY: by the type's invariant it was in the table, whose reference this gives up. The
        // lock keeps the context there, as `close` needs it too.
        unsafe { ffi::rdma_user_mmap_entry_remove(entry.0.as_ptr()) };
    }

    /// Takes all entries out. Process context.
    pub(super) fn close(&self) {
        let mut entries = self.entries.lock();
        while let Some(entry) = entries.pop() {
            // SAFETY: as in `remove`; the caller still has the context.
            unsafe { ffi::rdma_user_mmap_entry_remove(entry.0.as_ptr()) };
        }
    }
}

/// Keeps a buffer mappable: when it is dropped (process context), no new mapping can be made.
pub(crate) struct Cookie {
    registry: Arc<Registry>,
    entry: EntryPtr,
}

// SAFETY: a cookie is a name for something that belongs to no thread.
unsafe impl Sync for Cookie {}

impl Drop for Cookie {
    fn drop(&mut self) {
        self.registry.remove(self.entry);
    }
}

/// The operation `mmap`.
///
/// EINVAL for an offset that was not told or the wrong length; EPERM for a mapping that could be
/// executed.
///
/// # Safety
///
/// For ib_core alone, in the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn mmap(
    context: *mut ffi::ib_ucontext,
    vma: *mut ffi::vm_area_struct,
) -> kernel::ffi::c_int {
    // SAFETY: ib_core gives a context and a mapping under construction. This checks offset, length
    // and that it is shared.
    let entry = unsafe { ffi::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: all entries in the table are ours (see `Registry::insert`), and we have a reference
    // to this one.
    let buf = unsafe { (*entry.cast::<Entry>()).buf.clone() };
    // SAFETY: the buffer is as many bytes of vmalloc memory, and the mapping is under construction. The pages
    // get references for it.
    let result = unsafe { ffi::oxe_shared_map(vma, buf.as_ptr().cast(), buf.len()) };
    // SAFETY: this is the reference that we got above.
    unsafe { ffi::rdma_user_mmap_entry_put(entry) };
    result
}

/// The operation `mmap_free`: the last reference to an entry is gone.
///
/// # Safety
///
/// For ib_core alone, in the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn mmap_free(entry: *mut ffi::rdma_user_mmap_entry) {
    // SAFETY: all entries in the table came from a box (see `Registry::insert`), and nobody has
    // this one any more.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}
