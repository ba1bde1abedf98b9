// SPDX-License-Identifier: GPL-2.0

//! Keeps another module out of the kernel while this one is in it.
//!
//! Two providers with the same driver id would take each other's devices for their own.

use crate::ffi;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_ulong, c_void};
use kernel::prelude::*;
use kernel::types::Opaque;

/// While this exists, the other module cannot be loaded.
///
/// # Invariants
///
/// `block` is registered in the kernel's module notifier chain, and stays in its place.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Exclusion {
    #[pin]
    block: Opaque<ffi::notifier_block>,
    other: &'static CStr,
}

// SAFETY: the kernel calls `notify` on any thread, which reads `other` alone; registration belongs
// to no thread.
unsafe impl Send for Exclusion {}
// SAFETY: as above.
unsafe impl Sync for Exclusion {}

impl Exclusion {
    /// Excludes module `other`, whose directory in sysfs is `path`.
    ///
    /// Process context. EBUSY, and a line in the kernel's log, if it is loaded already; ENOMEM.
    pub(crate) fn new(other: &'static CStr, path: &'static CStr) -> Result<Pin<KBox<Self>>> {
        let this = KBox::try_pin_init(
            try_pin_init!(Self {
                block <- Opaque::try_ffi_init(|block: *mut ffi::notifier_block| {
                    // SAFETY: the place is ours to initialise.
                    unsafe {
                        block.write(ffi::notifier_block {
                            notifier_call: Some(notify),
                            ..Default::default()
                        })
                    };
                    Ok::<(), Error>(())
                }),
                other,
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: registered here; on an error it is dropped, and to unregister a block that is
        // not in the chain does no harm. SAFETY: the block is initialised and pinned, and
        // unregistered when `this` is dropped.
        to_result(unsafe { ffi::register_module_notifier(this.block.get()) })?;
        // Register first, check second, so that the other module is not loaded unnoticed in
        // between; but see `is_loaded`.
        if is_loaded(path) {
            pr_err!(
                "not loaded: {} is, and both use its driver id: modprobe -r {}\n",
                *other,
                *other
            );
            return Err(EBUSY);
        }
        Ok(this)
    }
}

/// Whether the module whose directory in sysfs is `path` is loaded. Process context.
///
/// A module that is being loaded has its directory shortly after the notifier was called for it:
/// [`Exclusion::new`] may come between the two, and then finds neither. So its user asks again.
pub(crate) fn is_loaded(path: &CStr) -> bool {
    // SAFETY: the path is terminated.
    unsafe { ffi::oxe_path_exists(path.as_char_ptr()) }
}

#[pinned_drop]
impl PinnedDrop for Exclusion {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: the block is valid. To unregister one that is not in the chain does nothing.
        unsafe { ffi::unregister_module_notifier(self.block.get()) };
    }
}

/// NOTIFY_DONE: not concerned. CAST: it is 0.
const DONE: c_int = ffi::NOTIFY_DONE as c_int;

/// The module notifier's callback: refuses to load the other module.
///
/// # Safety
///
/// Only the kernel's module notifier chain calls this.
unsafe extern "C" fn notify(
    block: *mut ffi::notifier_block,
    action: c_ulong,
    module: *mut c_void,
) -> c_int {
    if action != ffi::module_state_MODULE_STATE_COMING as c_ulong {
        return DONE;
    }
    // SAFETY: `block` is the first member of an `Exclusion`, which is there while it is registered.
    let other = unsafe { (*block.cast::<Exclusion>()).other };
    // SAFETY: the kernel gives the module, whose name is terminated and does not change.
    let name = unsafe { CStr::from_char_ptr((*module.cast::<ffi::module>()).name.as_ptr()) };
    if name != other {
        return DONE;
    }
    pr_err!(
        "{} cannot be loaded while oxe is, as both use its driver id: modprobe -r oxe\n",
        *name
    );
    // Encoded as `notifier_from_errno` does: stop, and the negative errno subtracted from OK.
    // CAST: the flag is bit 15.
    (ffi::NOTIFY_STOP_MASK | (ffi::NOTIFY_OK + ffi::EBUSY)) as c_int
}
