// SPDX-License-Identifier: GPL-2.0

//! Allocations, and the memory cgroup that they are charged to: a process is charged for those that
//! it causes.
//!
//! Kernel threads, and so most kernel users, belong to the root cgroup, which has no limit: the
//! same flags serve both.

use crate::ffi;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::prelude::*;

/// As `GFP_KERNEL_ACCOUNT`: process context, charged to the calling process. But at the limit of
/// its cgroup the allocation fails, and the OOM killer is not invoked.
pub(crate) const GFP_CHARGED: Flags = flags(ffi::oxe_gfp_OXE_GFP_CHARGED);

/// The same for contexts that must not sleep. It does not use the reserves of `GFP_ATOMIC`.
const GFP_CHARGED_NOWAIT: Flags = flags(ffi::oxe_gfp_OXE_GFP_CHARGED_NOWAIT);

/// Flags that the kernel crate has no name for.
const fn flags(bits: ffi::gfp_t) -> Flags {
    // SAFETY: `Flags` is a tuple of one such number, of which all are valid; see the assertion
    // below.
    unsafe { core::mem::transmute::<ffi::gfp_t, Flags>(bits) }
}

const _: () = {
    // SAFETY: a plain number is read, of the same size.
    let bits = unsafe { core::mem::transmute::<Flags, ffi::gfp_t>(GFP_KERNEL) };
    assert!(bits == ffi::GFP_KERNEL);
};

/// The memory cgroup that is charged for the later allocations of an object, in whatever context
/// they are.
///
/// # Invariants
///
/// The pointer has a reference.
pub(crate) struct Payer(Option<NonNull<ffi::mem_cgroup>>);

// SAFETY: a cgroup belongs to no thread.
unsafe impl Send for Payer {}
// SAFETY: as above; only its address is used here.
unsafe impl Sync for Payer {}

impl Payer {
    /// The cgroup of the calling process if `user`, else none. Process context.
    pub(crate) fn new(user: bool) -> Self {
        if !user {
            return Payer(None);
        }
        // SAFETY: no requirements. INVARIANT: it gives a reference, or null without cgroups.
        Payer(NonNull::new(unsafe { ffi::oxe_memcg_get() }))
    }

    /// Calls `allocate`, which uses the flags that it is given and does not sleep. Its allocations
    /// are charged.
    ///
    /// Any context but hard irqs.
    pub(crate) fn charge<R>(&self, allocate: impl FnOnce(Flags) -> R) -> R {
        let Some(memcg) = self.0 else {
            return allocate(GFP_ATOMIC);
        };
        // SAFETY: the reference keeps the cgroup until the end of the scope.
        let before = unsafe { ffi::oxe_memcg_enter(memcg.as_ptr()) };
        let result = allocate(GFP_CHARGED_NOWAIT);
        // SAFETY: this ends the scope that began above, in the same context.
        unsafe { ffi::oxe_memcg_enter(before) };
        result
    }
}

impl Drop for Payer {
    /// Any context.
    fn drop(&mut self) {
        if let Some(memcg) = self.0 {
            // SAFETY: by the invariant the reference is ours.
            unsafe { ffi::oxe_memcg_put(memcg.as_ptr()) };
        }
    }
}
