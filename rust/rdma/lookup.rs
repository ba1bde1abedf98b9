// SPDX-License-Identifier: GPL-2.0

//! References to registered devices, found by network interface or GID.

use super::device::Device;
use super::driver::Driver;
use super::owner;
use crate::ffi;
use crate::net::netdev::{NetDevice, NetdevId};
use core::ops::Deref;
use core::ptr::NonNull;

/// A reference that keeps a device registered. It is to be dropped soon.
///
/// # Invariants
///
/// The pointer is to a registered device of ours, with the reference of `ib_device_get_by_netdev`.
pub(crate) struct DeviceRef<D: Driver>(NonNull<Device<D>>);

// SAFETY: a reference may be given up on any thread.
unsafe impl<D: Driver> Send for DeviceRef<D> {}
// SAFETY: it gives nothing but `&Device<D>`.
unsafe impl<D: Driver> Sync for DeviceRef<D> {}

impl<D: Driver> DeviceRef<D> {
    /// Our device on `ndev`, if there is one that is registered. Any context but hard irqs.
    pub(crate) fn by_netdev(ndev: &NetDevice) -> Option<Self> {
        let id = D::DRIVER_ID.0;
        // SAFETY: the interface is valid.
        let ib = unsafe { ffi::ib_device_get_by_netdev(ndev.as_raw(), id) };
        let ib = NonNull::new(ib)?;
        // The id may be that of another module, too. It is kept out, but memory safety must not
        // depend on that. SAFETY: the device is valid while we have the reference.
        if !unsafe { owner::is_ours(ib.as_ptr()) } {
            // SAFETY: this is the reference that we got above.
            unsafe { ffi::ib_device_put(ib.as_ptr()) };
            return None;
        }
        // INVARIANT: all devices of this module are made by `Device::<D>::register`.
        Some(DeviceRef(ib.cast()))
    }

    /// Our `index`th device that has `gid` as an address of `ndev`, which it need not be on. Any
    /// context but hard irqs.
    pub(crate) fn by_gid(ndev: &NetDevice, gid: &[u8; 16], index: u32) -> Option<Self> {
        // SAFETY: the interface is valid, and the GID is 16 bytes.
        let ib = unsafe { ffi::oxe_gid_device(ndev.as_raw(), gid.as_ptr(), index) };
        // INVARIANT: GIDs are added for devices of this module alone, all of which
        // `Device::<D>::register` makes.
        Some(DeviceRef(NonNull::new(ib)?.cast()))
    }

    /// Whether the device has `gid` as an address of `netdev`. Any context.
    pub(crate) fn has_gid(&self, netdev: NetdevId, gid: &[u8; 16]) -> bool {
        // SAFETY: the device is valid, and so are 16 bytes.
        unsafe { ffi::oxe_gid_is_of(self.as_raw(), netdev.0, gid.as_ptr()) }
    }

    /// Has a worker unregister the device. May be called under RTNL, and more than once.
    pub(crate) fn unregister_queued(&self) {
        // SAFETY: the device is registered, and has `dealloc_driver`.
        unsafe { ffi::ib_unregister_device_queued(self.as_raw()) };
    }
}

impl<D: Driver> Deref for DeviceRef<D> {
    type Target = Device<D>;

    fn deref(&self) -> &Device<D> {
        // SAFETY: a registered device is valid, and its data are not dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<D: Driver> Drop for DeviceRef<D> {
    fn drop(&mut self) {
        // SAFETY: by the type's invariant.
        unsafe { ffi::ib_device_put(self.as_raw()) };
    }
}
