// SPDX-License-Identifier: GPL-2.0

//! Memory that processes map and the kernel reads and writes at the same time.
//!
//! Its content cannot be trusted, not even to stay the same between two reads. So there are no
//! references into it, only copies, and every access is checked against the buffer's length.

use crate::ffi;
use crate::sync::memory::GFP_CHARGED;
use crate::sync::work;
use core::ptr::NonNull;
use kernel::page::page_align;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

/// Whole pages of vmalloc memory.
///
/// In interrupts the kernel frees such memory later, and until then the pages hold a node of the
/// list of what is to be freed: a process that still has them mapped would read kernel addresses,
/// and could change them. So an interrupt leaves the free to a worker.
///
/// # Invariants
///
/// `addr` is the start of vmalloc memory that this owns.
#[pin_data(PinnedDrop)]
struct Memory {
    addr: NonNull<u8>,
    #[pin]
    work: Work<Memory>,
}

impl_has_work! {
    impl HasWork<Self> for Memory { self.work }
}

// SAFETY: vmalloc memory belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: all that is done through a shared reference is to queue the work.
unsafe impl Sync for Memory {}

impl WorkItem for Memory {
    type Pointer = Arc<Memory>;

    /// Drops the last reference.
    fn run(_this: Arc<Memory>) {}
}

impl Memory {
    /// Allocates `len` bytes, zeroed. Process context. ENOMEM.
    fn new(len: usize) -> Result<Arc<Self>> {
        // SAFETY: any length may be asked for; the result is null or zeroed memory of that length.
        let addr = unsafe { ffi::oxe_shared_alloc(len) };
        let addr = NonNull::new(addr.cast()).ok_or(ENOMEM)?;
        // INVARIANT: that is what `oxe_shared_alloc` gives.
        let memory = pin_init!(Memory {
            addr,
            work <- new_work!("oxe_shared"),
        });
        Arc::pin_init(memory, GFP_CHARGED).inspect_err(|_| {
            // SAFETY: it is vmalloc memory that nothing refers to.
            unsafe { ffi::oxe_shared_free(addr.as_ptr().cast()) }
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Memory {
    /// Process context. Processes that have it mapped keep the pages, each by a reference of its
    /// own.
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: by the type's invariant this is vmalloc memory that we own; no pointer into it is
        // left.
        unsafe { ffi::oxe_shared_free(self.addr.as_ptr().cast()) };
    }
}

/// A zeroed buffer of whole pages.
///
/// # Invariants
///
/// `addr` is the start of the `len` bytes of `memory`, which is there until the buffer is dropped;
/// `len` is a multiple of the page size and not zero. It can be mapped by processes if `mappable`.
///
/// Words of it are accessed atomically, other bytes are copied, and nothing here keeps both from
/// the same bytes: only the use that `ring` makes of a header and of the elements behind it does.
/// The language has no meaning for a copy that races with a store, of a process or of the kernel.
/// The kernel's memory model has one, by which a copy is as many plain loads or stores (see
/// `copy_out`).
pub(crate) struct SharedBuf {
    addr: NonNull<u8>,
    len: usize,
    mappable: bool,
    memory: Option<Arc<Memory>>,
}

// SAFETY: vmalloc memory belongs to no thread.
unsafe impl Send for SharedBuf {}
// SAFETY: as far as the buffer itself goes, all access is by copies which may run at the same time
// (see `copy_out`).
unsafe impl Sync for SharedBuf {}

impl SharedBuf {
    /// Allocates at least `len` bytes, mappable by processes if `user`. Process context.
    ///
    /// ENOMEM also when `len` is zero or absurdly large; the caller checks any real limit.
    pub(crate) fn new(len: usize, user: bool) -> Result<Arc<Self>> {
        let len = page_align(len).filter(|len| *len != 0).ok_or(ENOMEM)?;
        let memory = Memory::new(len)?;
        // INVARIANT: these are the address and the length of the memory.
        let buf = SharedBuf {
            addr: memory.addr,
            len,
            mappable: user,
            memory: Some(memory),
        };
        Ok(Arc::new(buf, GFP_CHARGED)?)
    }

    /// The length in bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether processes may map it.
    pub(super) fn is_mappable(&self) -> bool {
        self.mappable
    }

    /// The first byte, for mapping.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.addr.as_ptr()
    }

    /// Where byte `off` is, if there are `len` bytes from there.
    #[inline]
    fn at(&self, off: usize, len: usize) -> Option<*mut u8> {
        if off.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `off` is at most `len`, so the result is inside the buffer or just behind it.
        Some(unsafe { self.addr.as_ptr().add(off) })
    }

    /// The 32-bit word at `off`.
    #[inline]
    fn word(&self, off: usize) -> Option<&Atomic<u32>> {
        let at = self.at(off, 4)?.cast::<u32>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: `at` is valid and aligned, and lives as long as `self`. A concurrent access is
        // that of a process (which the kernel's memory model treats as atomic) or one of the copies
        // below, which the driver's own protocol keeps apart from words it uses atomically.
        Some(unsafe { Atomic::from_ptr(at) })
    }

    /// Reads the native 32-bit word at `off`; what the writer wrote before it is visible. `None` if
    /// it is not inside or not aligned. Any context.
    #[inline]
    pub(crate) fn load_acquire_u32(&self, off: usize) -> Option<u32> {
        Some(self.word(off)?.load(Acquire))
    }

    /// Writes the native 32-bit word at `off` after everything written before. `None` if it is not
    /// inside or not aligned. Any context.
    #[inline]
    pub(crate) fn store_release_u32(&self, off: usize, value: u32) -> Option<()> {
        self.word(off)?.store(value, Release);
        Some(())
    }

    /// Copies the bytes from `off` on to `out`. `None` if they are not all inside. Any context.
    ///
    /// A process may write them at the same time; then each byte is an old or a new one.
    #[inline]
    pub(crate) fn copy_out(&self, off: usize, out: &mut [u8]) -> Option<()> {
        let from = self.at(off, out.len())?;
        // SAFETY: `from` is valid for `out.len()` bytes and cannot overlap with `out`, as there are
        // no references into the buffer. Processes race with this as they do with `copy_from_user`:
        // bytes have no invalid values, and nothing is inferred from them before they are in `out`,
        // which is ours.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Some(())
    }

    /// Copies `bytes` to `off`. `None` if they would not all be inside. Any context.
    #[inline]
    pub(crate) fn copy_in(&self, off: usize, bytes: &[u8]) -> Option<()> {
        let to = self.at(off, bytes.len())?;
        // SAFETY: `to` is valid for writing `bytes.len()` bytes and cannot overlap with `bytes`;
        // for processes that read concurrently, see `copy_out`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some(())
    }
}

impl Drop for SharedBuf {
    /// Process context, or softirq.
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            work::drop_in_process(memory);
        }
    }
}
