// SPDX-License-Identifier: GPL-2.0

//! The GIDs of the devices: the operations by which ib_core adds and deletes them, and look-ups by
//! network interface and address.
//!
//! A GID is an address of the device's network interface, or of one above it: a VLAN, the bridge or
//! bond that it is a port of, a macvlan, perhaps in another network namespace.

use super::device::Device;
use super::driver::Driver;
use crate::ffi;
use crate::net::netdev::{NetDevice, NetdevId};
use core::ptr::{null_mut, NonNull};
use kernel::error::from_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};

/// Counts the GIDs that ports have lost, for all devices together.
static LOST: Atomic<u32> = Atomic::new(0);

/// The generation of the ports' GIDs. While it does not change, a GID that was found stays valid;
/// GIDs may be added meanwhile. Any context.
#[inline]
pub(crate) fn generation() -> u32 {
    LOST.load(Acquire)
}

/// Changes the [`generation`], so that its users look up GIDs again. Any context.
pub(crate) fn outdate() {
    let _ = LOST.fetch_add(1, Release);
}

/// Calls `f` with the interface `netdev`, if it still has the address `gid` as a GID of a device.
/// Any context; `f` must not sleep.
pub(crate) fn with_netdev<R>(
    netdev: NetdevId,
    gid: &[u8; 16],
    f: impl FnOnce(&NetDevice) -> R,
) -> Option<R> {
    let _reading = kernel::sync::rcu::read_lock();
    // SAFETY: we read under RCU, and the GID is 16 bytes.
    let found = unsafe { ffi::oxe_gid_netdev(netdev.0, gid.as_ptr()) };
    // SAFETY: ib_core holds the interface until a grace period after its GID is gone.
    (!found.is_null()).then(|| f(unsafe { NetDevice::from_raw(found) }))
}

/// What is kept for a GID of a device driven by `D`, while ib_core has it.
struct Entry<D: Driver> {
    found: NonNull<ffi::oxe_gid>,
    /// Dropped when the GID can no longer be found.
    _use: Option<D::GidUse>,
}

impl<D: Driver> Drop for Entry<D> {
    fn drop(&mut self) {
        // SAFETY: `add_gid` added it, and it is deleted once.
        unsafe { ffi::oxe_gid_del(self.found.as_ptr()) };
        outdate();
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
