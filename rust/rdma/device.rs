// SPDX-License-Identifier: GPL-2.0

//! Devices, references to them, and their events.

use super::driver::Driver;
use super::owner;
use crate::ffi;
use crate::net::netdev::{NetDevice, NetdevId};
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::types::Opaque;

/// A device: ib_core's structure, and the driver's data behind it, to which this dereferences.
///
/// # Invariants
///
/// `ib` was allocated by ib_core with this type's size; `data` is initialised. It stays in its
/// place until ib_core calls `dealloc_driver`; by then it has no users any more.
#[repr(C)]
pub(crate) struct Device<D: Driver> {
    ib: Opaque<ffi::ib_device>,
    pub(super) data: D,
}

// SAFETY: ib_core's structure is made for concurrent use; the driver's data are `Send`.
unsafe impl<D: Driver> Send for Device<D> {}
// SAFETY: as above; the driver's data are `Sync`.
unsafe impl<D: Driver> Sync for Device<D> {}

impl<D: Driver> Deref for Device<D> {
    type Target = D;

    #[inline]
    fn deref(&self) -> &D {
        &self.data
    }
}

impl<D: Driver> Device<D> {
    /// The device behind ib_core's structure.
    ///
    /// # Safety
    ///
    /// `ib` is a device that [`Device::register`] of the same `D` made, and whose data are not
    /// dropped during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(ib: *mut ffi::ib_device) -> &'a Self {
        // SAFETY: `ib` is the first member; the rest is the requirement of this function.
        unsafe { &*ib.cast::<Self>() }
    }

    /// ib_core's structure.
    pub(super) fn as_raw(&self) -> *mut ffi::ib_device {
        self.ib.get()
    }

    /// Notifies the device's users if the state of the port has changed since the last
    /// notification.
    ///
    /// ib_core does this by itself on events of the network interface, except that it leaves bonds
    /// to their drivers. Doing it twice does no harm. Process context, also under RTNL.
    pub(crate) fn port_changed(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::oxe_ib_port_changed(self.as_raw()) };
    }

    /// Has ib_core look for addresses that are not in the GID table, and add them.
    ///
    /// ib_core does this by itself for Ethernet interfaces. Process context, without RTNL.
    pub(crate) fn rescan_gids(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::rdma_roce_rescan_device(self.as_raw()) };
    }

    /// The node GUID. Its first byte on the wire is the most significant.
    pub(crate) fn node_guid(&self) -> u64 {
        // SAFETY: the device is valid, and this does not change.
        u64::from_be(unsafe { (*self.as_raw()).node_guid })
    }
}

/// Sets the node description to `text`, truncated to the field's size or padded with zeroes.
/// Process context.
pub(super) fn set_node_desc(ib: *mut ffi::ib_device, text: &[u8]) {
    let mut desc = [0_u8; ffi::IB_DEVICE_NODE_DESC_MAX as usize];
    for (to, from) in desc.iter_mut().zip(text) {
        *to = *from;
    }
    // SAFETY: callers have a valid device; the text has the size of the field.
    unsafe { ffi::oxe_ib_set_node_desc(ib, desc.as_ptr().cast()) };
}

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
        // SAFETY: the interface is valid.
        let ib = NonNull::new(unsafe {
            ffi::ib_device_get_by_netdev(ndev.as_raw(), ffi::rdma_driver_id_RDMA_DRIVER_RXE)
        })?;
        // rdma_rxe's devices have the same driver id. That module is kept out, but memory safety
        // must not depend on it. SAFETY: the device is valid while we have the reference.
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

/// The operation `dealloc_driver`: the device has no users any more.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(ib: *mut ffi::ib_device) {
    // SAFETY: ib_core gives a device of ours, once; the data were initialised before this operation
    // was set. They are not used again.
    unsafe { core::ptr::drop_in_place(&raw mut (*ib.cast::<Device<D>>()).data) };
}
