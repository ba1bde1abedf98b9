// SPDX-License-Identifier: GPL-2.0

//! Which module we are.
//!
//! From 7.3 on the module is not known at the crate's root any more, so the `&'static ThisModule`
//! that init is given is kept here, for the operations table and for telling our devices from
//! others'.

use crate::ffi;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};

/// The address of our `struct module`; zero before [`claim`].
static OWNER: Atomic<usize> = Atomic::new(0);

/// Remembers which module we are. Gives whether this was the first time.
pub(super) fn claim(module: &'static ThisModule) -> bool {
    OWNER.cmpxchg(0, module.as_ptr() as usize, Full).is_ok()
}

/// Our module; null before [`claim`].
pub(super) fn owner() -> *mut ffi::module {
    OWNER.load(Acquire) as *mut ffi::module
}
