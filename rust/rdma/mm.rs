// SPDX-License-Identifier: GPL-2.0

//! The memory of a process, which a thread of the kernel faults pages of in, and that thread.

use crate::ffi;
use core::ptr::{null_mut, NonNull};

/// The memory of a process: by itself the structure that describes it, which stays when the memory
/// goes with its last user.
///
/// # Invariants
///
/// The structure has a reference.
pub(super) struct Mm(NonNull<ffi::mm_struct>);

// SAFETY: the structure belongs to no thread.
unsafe impl Send for Mm {}
// SAFETY: as above; its counts are atomic, and it has its own locks.
unsafe impl Sync for Mm {}

impl Mm {
    /// That of the calling process. Process context. `None` for a kernel thread.
    pub(super) fn current() -> Option<Self> {
        // SAFETY: no requirements.
        let mm = NonNull::new(unsafe { ffi::oxe_odp_current_mm() })?;
        // SAFETY: it is the calling process's. INVARIANT: this takes the reference.
        unsafe { ffi::oxe_odp_mm_grab(mm.as_ptr()) };
        Some(Mm(mm))
    }

    /// Tells it from all others that have a reference.
    pub(super) fn key(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }

    /// Becomes a user of the memory. Returns false if that is gone. Any context.
    pub(super) fn get(&self) -> bool {
        // SAFETY: by the type's invariant.
        unsafe { ffi::oxe_odp_mm_get(self.0.as_ptr()) }
    }

    /// Gives one use up. Any context.
    ///
    /// # Safety
    ///
    /// The caller is a user of the memory: see [`Mm::get`].
    pub(super) unsafe fn put(&self) {
        // SAFETY: the caller's promise.
        unsafe { ffi::oxe_odp_mm_put(self.0.as_ptr()) };
    }

    /// Becomes a user of the memory if all other users are those `held`, which do not change
    /// meanwhile: then no process has it. Any context.
    pub(super) fn get_orphan(&self, held: u32) -> Option<Orphan<'_>> {
        // SAFETY: by the type's invariant.
        // INVARIANT: without a process, no process begins to use it.
        unsafe { ffi::oxe_odp_mm_get_orphan(self.0.as_ptr(), held) }.then_some(Orphan(self))
    }
}

impl Drop for Mm {
    /// Any context.
    fn drop(&mut self) {
        // SAFETY: by the invariant the reference is ours.
        unsafe { ffi::oxe_odp_mm_drop(self.0.as_ptr()) };
    }
}

/// Memory that no process has any more, and a use of it.
///
/// # Invariants
///
/// As it says.
pub(super) struct Orphan<'a>(&'a Mm);

impl Orphan<'_> {
    /// Gives the pages back. Returns whether that was done for all. Process context.
    pub(super) fn reap(self) -> bool {
        // SAFETY: by the invariant no process misses them; the use is given back.
        unsafe { ffi::oxe_odp_mm_reap(self.0 .0.as_ptr()) }
    }
}

/// A kernel thread that may be killed.
///
/// # Invariants
///
/// Null, or a thread that is there.
pub(super) struct Killable(*mut ffi::task_struct);

// SAFETY: the thread is only sent a signal.
unsafe impl Send for Killable {}

impl Killable {
    /// No thread.
    pub(super) const NONE: Self = Killable(null_mut());

    /// Whether it is one.
    pub(super) fn is_some(&self) -> bool {
        !self.0.is_null()
    }

    /// The calling one can be killed as from now.
    ///
    /// # Safety
    ///
    /// It is a kernel thread, and forgets this value before it calls [`Killable::forbid`].
    pub(super) unsafe fn current() -> Self {
        // SAFETY: it is a kernel thread. INVARIANT: it is there.
        Killable(unsafe {
            ffi::oxe_odp_allow_kill();
            ffi::oxe_odp_current()
        })
    }

    /// The calling kernel thread cannot be killed any more; a signal that came is dropped.
    ///
    /// # Safety
    ///
    /// There is no value for it any more.
    pub(super) unsafe fn forbid() {
        // SAFETY: no signal can come, by the requirement of this function.
        unsafe { ffi::oxe_odp_forbid_kill() };
    }

    /// A wait of the thread ends, if it heeds signals. Process context.
    pub(super) fn kill(&self) {
        if self.is_some() {
            // SAFETY: by the type's invariant.
            unsafe { ffi::oxe_odp_kill(self.0) };
        }
    }
}
