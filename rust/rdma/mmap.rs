// SPDX-License-Identifier: GPL-2.0

//! Mappings of shared buffers: the driver gives a process an offset, and the process maps the
//! buffer there.
//!
//! ib_core keeps the offsets of a process's context in a table. An entry of ours holds its buffer;
//! a mapping, once made, holds the pages by itself, so it outlives entry, object and context.
//!
//! Entries must leave the table before the context is freed, even while a [`Cookie`] still exists.
//! So the context has a [`Registry`] of its entries. An entry is removed from it exactly once: by
//! its cookie, or with the context.

use super::shared::SharedBuf;
use crate::ffi;
use crate::sync::memory::GFP_CHARGED;
use core::cell::UnsafeCell;
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
    /// Its neighbours in the list of its registry, whose lock guards them.
    links: UnsafeCell<Links>,
    buf: Arc<SharedBuf>,
}

/// The neighbours of an entry.
#[derive(Clone, Copy, Default)]
struct Links {
    before: Option<EntryPtr>,
    after: Option<EntryPtr>,
}

/// A pointer to an entry that is in the table.
#[derive(Clone, Copy)]
struct EntryPtr(NonNull<Entry>);

// SAFETY: entries belong to no thread.
unsafe impl Send for EntryPtr {}

impl EntryPtr {
    /// The neighbours.
    ///
    /// # Safety
    ///
    /// The entry is listed, and the caller holds the lock of its registry and no other reference to
    /// its links.
    unsafe fn links<'a>(self) -> &'a mut Links {
        // SAFETY: a listed entry is valid (see `Registry`), and the lock excludes all other
        // accesses.
        unsafe { &mut *self.0.as_ref().links.get() }
    }
}

/// The linked list of entries: removal takes constant time, and insertion allocates no memory.
struct List {
    first: Option<EntryPtr>,
    /// The context is going away: there are no entries any more.
    closed: bool,
}

impl List {
    /// Puts `entry` at the front.
    ///
    /// # Safety
    ///
    /// The entry is valid, in no list, and stays valid until it is removed from this one. The
    /// caller holds the lock.
    unsafe fn insert(&mut self, entry: EntryPtr) {
        if let Some(first) = self.first {
            // SAFETY: it is listed, and the lock is held.
            unsafe { first.links() }.before = Some(entry);
        }
        let links = Links {
            before: None,
            after: self.first,
        };
        // SAFETY: by the requirement of this function it is valid, as a listed entry is, and the
        // lock is held.
        *unsafe { entry.links() } = links;
        self.first = Some(entry);
    }

    /// Takes `entry` out.
    ///
    /// # Safety
    ///
    /// The entry is in this list, and the caller holds the lock.
    unsafe fn remove(&mut self, entry: EntryPtr) {
        // SAFETY: by the requirement of this function.
        let links = core::mem::take(unsafe { entry.links() });
        match links.before {
            // SAFETY: neighbours are listed, and the lock is held.
            Some(before) => unsafe { before.links() }.after = links.after,
            None => self.first = links.after,
        }
        if let Some(after) = links.after {
            // SAFETY: as above.
            unsafe { after.links() }.before = links.before;
        }
    }
}

/// The entries of one context.
///
/// # Invariants
///
/// The entries listed are those in the context's table, each with the reference that insertion
/// gave. Until the registry is closed, they are the entries of the existing cookies; after that
/// there are none. The context is valid while there are any.
#[pin_data]
pub(super) struct Registry {
    #[pin]
    entries: Mutex<List>,
}

impl Registry {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                entries <- kernel::new_mutex!(
                    List { first: None, closed: false },
                    "oxe_mmap"
                )
            }),
            GFP_CHARGED,
        )
    }

    /// Makes `buf` mappable in `context`. Returns the cookie, and the offset in bytes at which the
    /// process maps it.
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
        let entry = KBox::new(
            Entry {
                c: Opaque::zeroed(),
                links: UnsafeCell::new(Links::default()),
                buf: buf.clone(),
            },
            GFP_CHARGED,
        )?;
        let raw = KBox::into_raw(entry);
        let mut entries = self.entries.lock();
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
        let entry = EntryPtr(NonNull::new(raw).ok_or(EINVAL)?);
        // INVARIANT: it is in the table now.
        // SAFETY: it came from a box, and the table's reference keeps it until it is removed.
        unsafe { entries.insert(entry) };
        drop(entries);
        let cookie = Cookie {
            registry: self.clone(),
            entry,
        };
        Ok((cookie, (offset as u64).wrapping_mul(PAGE_SIZE as u64)))
    }

    /// Takes the entry of a cookie out of the list and the table, if it is still there.
    ///
    /// # Safety
    ///
    /// The entry is that of a cookie of this registry, and the cookie is being dropped.
    unsafe fn remove(&self, entry: EntryPtr) {
        let mut entries = self.entries.lock();
        if entries.closed {
            return;
        }
        // SAFETY: by the type's invariant it is listed. It was in the table too, whose reference
        // this gives up. The lock keeps the context valid, as `close` takes it, too.
        unsafe {
            entries.remove(entry);
            ffi::rdma_user_mmap_entry_remove(entry.0.as_ptr().cast());
        }
    }

    /// Takes all entries out. Process context.
    pub(super) fn close(&self) {
        let mut entries = self.entries.lock();
        entries.closed = true;
        while let Some(entry) = entries.first {
            // SAFETY: as in `remove`; the caller still has the context.
            unsafe {
                entries.remove(entry);
                ffi::rdma_user_mmap_entry_remove(entry.0.as_ptr().cast());
            }
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
        // SAFETY: the entry is that of this cookie, which is being dropped.
        unsafe { self.registry.remove(self.entry) };
    }
}

/// The operation `mmap`.
///
/// EINVAL for an offset that the process was not given, or a wrong length; EPERM for an executable
/// mapping.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
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
    // SAFETY: the buffer is as many bytes of vmalloc memory, and the mapping is under construction.
    // The pages get references for it.
    let result = unsafe { ffi::oxe_shared_map(vma, buf.as_ptr().cast(), buf.len()) };
    // SAFETY: this is the reference that we got above.
    unsafe { ffi::rdma_user_mmap_entry_put(entry) };
    result
}

/// The operation `mmap_free`: the last reference to an entry is gone.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn mmap_free(entry: *mut ffi::rdma_user_mmap_entry) {
    // SAFETY: all entries in the table came from a box (see `Registry::insert`), and the last
    // reference to this one is gone.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}
