// SPDX-License-Identifier: GPL-2.0

//! The identity of this module.
//!
//! From 7.3 on the module is not defined at the crate's root any more. So this file keeps the
//! `&'static ThisModule` that init gets, for the operations table and to tell our devices from
//! those of other modules.

use crate::ffi;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};

/// The address of our `struct module`; zero before [`claim`].
static OWNER: Atomic<usize> = Atomic::new(0);

/// Stores the address of `module`. Returns whether this was the first call.
pub(super) fn claim(module: &'static ThisModule) -> bool {
    OWNER
        .cmpxchg(0, module.as_ptr().expose_provenance(), Full)
        .is_ok()
}

/// Our module; null before [`claim`].
pub(super) fn owner() -> *mut ffi::module {
    core::ptr::with_exposed_provenance_mut(OWNER.load(Acquire))
}

/// Whether a device is one of ours. One of a driver that is built into the kernel has no owner.
///
/// # Safety
///
/// `ib` is a device of ib_core's.
pub(super) unsafe fn is_ours(ib: *mut ffi::ib_device) -> bool {
    let ours = owner();
    // SAFETY: by the requirement of this function; the owner does not change.
    !ours.is_null() && unsafe { (*ib).ops.owner } == ours
}
