// SPDX-License-Identifier: GPL-2.0

//! Operations on memory windows.

use super::device::Device;
use super::driver::Driver;
use super::mr::MwType;
use super::object::Object;
use super::ops_pd::PdObject;
use super::post::errno;
use crate::ffi;
use kernel::error::{from_result, to_result};
use kernel::ffi::c_int;

/// The object that ib_core allocates for a memory window.
pub(super) type MwObject<D> = Object<ffi::ib_mw, <D as Driver>::Mw>;

/// EOPNOTSUPP for driver-private input that the driver does not know.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_mw<D: Driver>(
    mw: *mut ffi::ib_mw,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives null or the call's own `udata`.
        to_result(unsafe { ffi::oxe_udata_in_empty(udata) })?;
        // SAFETY: ib_core gives a window under construction, with its type.
        let kind = MwType::from_raw(unsafe { (*mw).type_ })?;
        // SAFETY: ib_core has set its domain, made by `alloc_pd`, of a device that is ours.
        let (dev, pd) = unsafe {
            let pd = (*mw).pd;
            (Device::<D>::from_raw((*pd).device), PdObject::<D>::get(pd))
        };
        let (value, key) = D::alloc_mw(dev, pd, kind)?;
        // SAFETY: it was allocated with `MwObject::SIZE`, and no other thread can access it yet.
        unsafe {
            (*mw).rkey = key;
            MwObject::<D>::init(mw, value);
        }
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_mw<D: Driver>(mw: *mut ffi::ib_mw) -> c_int {
    // SAFETY: it was initialised by `alloc_mw`, and ib_core allows no other use of it any more.
    let done = D::dealloc_mw(unsafe { MwObject::<D>::get(mw) });
    if done.is_ok() {
        // SAFETY: as above.
        drop(unsafe { MwObject::<D>::take(mw) });
    }
    errno(done)
}
