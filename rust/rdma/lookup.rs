// SPDX-License-Identifier: GPL-2.0

//! References to registered devices, found by network interface or GID.

use super::attr::DriverId;
use super::device::Device;
use super::driver::Driver;
use super::owner;
use crate::ffi;
use crate::net::netdev::{NetDevice, NetdevId};
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

/// A reference that keeps a device registered, for what needs none of the driver's data. It is to
/// be dropped soon.
///
/// # Invariants
///
/// The pointer is to a registered device of ours, with the reference of `ib_device_get_by_netdev`.
pub(crate) struct IbDeviceRef(NonNull<ffi::ib_device>);

// SAFETY: a reference may be given up on any thread.
unsafe impl Send for IbDeviceRef {}
// SAFETY: ib_core's structure is made for concurrent use.
unsafe impl Sync for IbDeviceRef {}

impl IbDeviceRef {
    /// Our device on `ndev`, if there is one that is registered. `driver` is the number of its
    /// driver. Any context but hard irqs.
    pub(crate) fn by_netdev(ndev: &NetDevice, driver: DriverId) -> Option<Self> {
        // SAFETY: the interface is valid.
        let ib = unsafe { ffi::ib_device_get_by_netdev(ndev.as_raw(), driver.0) };
        let ib = NonNull::new(ib)?;
        // The id may be that of another module, too. It is kept out, but memory safety must not
        // depend on that. SAFETY: the device is valid while we have the reference.
        if !unsafe { owner::is_ours(ib.as_ptr()) } {
            // SAFETY: this is the reference that we got above.
            unsafe { ffi::ib_device_put(ib.as_ptr()) };
            return None;
        }
        Some(IbDeviceRef(ib))
    }

    /// Whether the device has `gid` as an address of `netdev`. Any context.
    pub(crate) fn has_gid(&self, netdev: NetdevId, gid: &[u8; 16]) -> bool {
        // SAFETY: the device is valid, and so are 16 bytes.
        unsafe { ffi::oxe_gid_is_of(self.0.as_ptr(), netdev.0, gid.as_ptr()) }
    }

    /// Has ib_core look for addresses that are not in the GID table, and add them.
    ///
    /// ib_core does this by itself for Ethernet interfaces. Process context, without RTNL.
    pub(crate) fn rescan_gids(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::rdma_roce_rescan_device(self.0.as_ptr()) };
    }
}

impl Drop for IbDeviceRef {
    fn drop(&mut self) {
        // SAFETY: by the type's invariant.
        unsafe { ffi::ib_device_put(self.0.as_ptr()) };
    }
}

/// As [`IbDeviceRef`], with the driver's data.
///
/// # Invariants
///
/// `Device::<D>::register` made the device.
pub(crate) struct DeviceRef<D: Driver> {
    ib: IbDeviceRef,
    _device: PhantomData<fn() -> Device<D>>,
}

impl<D: Driver> DeviceRef<D> {
    /// Our device on `ndev`, if there is one that is registered. Any context but hard irqs.
    pub(crate) fn by_netdev(ndev: &NetDevice) -> Option<Self> {
        // INVARIANT: all devices of this module are made by `Device::<D>::register`.
        Some(DeviceRef {
            ib: IbDeviceRef::by_netdev(ndev, D::DRIVER_ID)?,
            _device: PhantomData,
        })
    }

    /// Our `index`th device that has `gid` as an address of `ndev`, which it need not be on. Any
    /// context but hard irqs.
    pub(crate) fn by_gid(ndev: &NetDevice, gid: &[u8; 16], index: u32) -> Option<Self> {
        // SAFETY: the interface is valid, and the GID is 16 bytes.
        let ib = unsafe { ffi::oxe_gid_device(ndev.as_raw(), gid.as_ptr(), index) };
        // INVARIANT: GIDs are added for devices of this module alone, all of which
        // `Device::<D>::register` makes.
        Some(DeviceRef {
            ib: IbDeviceRef(NonNull::new(ib)?),
            _device: PhantomData,
        })
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
        // SAFETY: by the type's invariant; a registered device is valid, and its data are not
        // dropped.
        unsafe { Device::from_raw(self.ib.0.as_ptr()) }
    }
}
