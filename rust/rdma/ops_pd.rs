// SPDX-License-Identifier: GPL-2.0

//! Operations on protection domains.

use super::device::Device;
use super::driver::Driver;
use super::object::Object;
use super::ops_ucontext::of_call;
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::c_int;

/// The object that ib_core allocates for a protection domain.
pub(super) type PdObject<D> = Object<ffi::ib_pd, <D as Driver>::Pd>;

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_pd<D: Driver>(
    pd: *mut ffi::ib_pd,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a domain under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*pd).device) };
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let value = D::alloc_pd(dev, unsafe { of_call::<D>(udata) })?;
        // SAFETY: it was allocated with `PdObject::SIZE`, and no other thread can access it yet.
        unsafe { PdObject::<D>::init(pd, value) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_pd<D: Driver>(
    pd: *mut ffi::ib_pd,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was initialised by `alloc_pd`; ib_core has seen to it that no object uses it.
    drop(unsafe { PdObject::<D>::take(pd) });
    0
}
