// SPDX-License-Identifier: GPL-2.0

//! The directories of devices in debugfs, in which root tunes them.

use super::device::Device;
use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::ffi::{c_char, c_int, c_void};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The directory that has those of all devices, while this exists. There is one at most.
pub(crate) struct Root(());

impl Root {
    /// Process context. To be called once, and dropped when there is no [`Directory`] any more.
    pub(crate) fn new() -> Self {
        // SAFETY: no device has a directory yet.
        unsafe { ffi::oxe_debugfs_init() };
        Root(())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: as `Root::new` requires, no device has a directory.
        unsafe { ffi::oxe_debugfs_exit() };
    }
}

/// What can be tuned. Value 0 is the number of the congestion controller; the others are called
/// [`Tunable::PARAMS`]. Process context.
pub(crate) trait Tunable: Send + Sync + 'static {
    /// The names of the files in `cc_params`, of the values from 1 on.
    const PARAMS: &'static [&'static CStr];

    /// The value `index`.
    fn get(&self, index: usize) -> u32;

    /// Changes it. EINVAL, with nothing changed, if it is out of range.
    fn set(&self, index: usize, value: u32) -> Result;
}

/// The directory of a device, `oxe/NAME`. Root alone can read and write its files.
///
/// # Invariants
///
/// `raw` was made with a pointer to the value in `tunable`.
pub(crate) struct Directory<T: Tunable> {
    raw: NonNull<ffi::oxe_debugfs>,
    _tunable: Arc<T>,
}

// SAFETY: what it points to belongs to no thread, and is changed by ib_core's client alone.
unsafe impl<T: Tunable> Send for Directory<T> {}
// SAFETY: a reference gives `rename` alone, which debugfs serialises.
unsafe impl<T: Tunable> Sync for Directory<T> {}

/// The operations on values of this type.
struct Ops<T>(PhantomData<T>);

impl<T: Tunable> Ops<T> {
    const TABLE: ffi::oxe_debugfs_ops = ffi::oxe_debugfs_ops {
        name: Some(name::<T>),
        get: Some(get::<T>),
        set: Some(set::<T>),
    };
}

impl<T: Tunable> Directory<T> {
    /// Makes it, by the device's name as it is now. `None` without memory. Where the kernel has no
    /// debugfs, or another has the name, there are no files.
    ///
    /// Process context.
    pub(crate) fn new<D>(dev: &Device<D>, tunable: Arc<T>) -> Option<Self> {
        let ops: &'static ffi::oxe_debugfs_ops = const { &Ops::<T>::TABLE };
        // SAFETY: the device is valid; the values stay until this is dropped, by the `Arc`.
        let raw = unsafe {
            ffi::oxe_debugfs_add(dev.as_raw(), Arc::as_ptr(&tunable).cast::<c_void>(), ops)
        };
        // INVARIANT: made with that pointer.
        Some(Directory {
            raw: NonNull::new(raw)?,
            _tunable: tunable,
        })
    }

    /// The device has another name. Process context.
    pub(crate) fn rename<D>(&self, dev: &Device<D>) {
        // SAFETY: both are valid.
        unsafe { ffi::oxe_debugfs_rename(self.raw.as_ptr(), dev.as_raw()) };
    }
}

impl<T: Tunable> Drop for Directory<T> {
    /// Process context; waits for reads and writes in progress.
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { ffi::oxe_debugfs_remove(self.raw.as_ptr()) };
    }
}

/// The name of a value, null behind the last one.
///
/// # Safety
///
/// None is needed: the type of the table has it unsafe.
unsafe extern "C" fn name<T: Tunable>(index: u32) -> *const c_char {
    let at = (index as usize).checked_sub(1);
    let name = at.and_then(|at| T::PARAMS.get(at));
    name.map_or(core::ptr::null(), |name| name.as_char_ptr())
}

/// # Safety
///
/// Only the files of a [`Directory`] call this.
unsafe extern "C" fn get<T: Tunable>(data: *const c_void, index: u32) -> u32 {
    // SAFETY: by the invariant of the directory, which removes its files before the value.
    unsafe { &*data.cast::<T>() }.get(index as usize)
}

/// # Safety
///
/// As for [`get`].
unsafe extern "C" fn set<T: Tunable>(data: *const c_void, index: u32, value: u32) -> c_int {
    from_result(|| {
        // SAFETY: as in `get`.
        unsafe { &*data.cast::<T>() }.set(index as usize, value)?;
        Ok(0)
    })
}
