// SPDX-License-Identifier: GPL-2.0

//! Operations on GIDs, by which they come into the table of [`super::gid_table`] and leave it.

use super::device::Device;
use super::driver::Driver;
use super::gid_table;
use crate::ffi;
use crate::net::netdev::NetDevice;
use core::ptr::{null_mut, NonNull};
use kernel::error::from_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;

/// The record of a GID of a device driven by `D`, while ib_core has it.
struct Entry<D: Driver> {
    found: NonNull<ffi::oxe_gid>,
    /// Dropped when the GID can no longer be found.
    _use: Option<D::GidUse>,
}

impl<D: Driver> Drop for Entry<D> {
    fn drop(&mut self) {
        // SAFETY: `add_gid` added it, and it is deleted once.
        unsafe { ffi::oxe_gid_del(self.found.as_ptr()) };
        gid_table::invalidate();
    }
}

/// A GID of RoCE version 2 can be found from now on. Process context, perhaps under RTNL. ENOMEM.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn add_gid<D: Driver>(
    attr: *const ffi::ib_gid_attr,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: ib_core gives the attributes of the GID.
    let (ib, kind) = unsafe { ((*attr).device, (*attr).gid_type) };
    // SAFETY: ib_core gives a place of ours.
    unsafe { *context = null_mut() };
    if kind != ffi::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP {
        return 0;
    }
    from_result(|| {
        // SAFETY: ib_core gives a device of ours.
        let dev = unsafe { Device::<D>::from_raw(ib) };
        // SAFETY: ib_core holds the interface of a GID that it adds.
        let netdev = unsafe { NetDevice::from_raw(ffi::oxe_gid_entry_netdev(attr)) };
        let used = D::add_gid(dev, netdev);
        // SAFETY: the attributes are those of a GID of ours.
        let found = NonNull::new(unsafe { ffi::oxe_gid_add(attr) }).ok_or(ENOMEM)?;
        let entry = KBox::new(Entry::<D> { found, _use: used }, GFP_KERNEL);
        // SAFETY: as above. `del_gid` gets the same place.
        unsafe { *context = KBox::into_raw(entry?).cast() };
        Ok(0)
    })
}

/// A GID is gone: look-ups do not find it any more. Process context, perhaps under RTNL.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn del_gid<D: Driver>(
    _attr: *const ffi::ib_gid_attr,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: ib_core gives the place that `add_gid` had.
    let entry = unsafe { core::mem::replace(&mut *context, null_mut()) };
    if !entry.is_null() {
        // SAFETY: `add_gid` made it, and it is taken once.
        drop(unsafe { KBox::from_raw(entry.cast::<Entry<D>>()) });
    }
    0
}
