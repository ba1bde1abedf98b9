// SPDX-License-Identifier: GPL-2.0

//! Devices: registration, references, events.

use super::driver::Driver;
use super::{link, ops, owner};
use crate::ffi;
use crate::net::netdev::NetDevice;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

/// A device: ib_core's structure, and the driver's data behind it, to which this dereferences.
///
/// # Invariants
///
/// `ib` was allocated by ib_core with this type's size; `data` is initialised. It stays in its
/// place until ib_core calls `dealloc_driver`, before which all who may use it are gone.
#[repr(C)]
pub(crate) struct Device<D: Driver> {
    ib: Opaque<ffi::ib_device>,
    data: D,
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

/// Gives back a device that was not registered.
struct Unregistered(NonNull<ffi::ib_device>);

impl Drop for Unregistered {
    fn drop(&mut self) {
        // SAFETY: it was allocated and is not registered. If the operations are set, its data are
        // initialised, and `dealloc_driver` drops them.
        unsafe { ffi::ib_dealloc_device(self.0.as_ptr()) };
    }
}

impl<D: Driver> Device<D> {
    const SIZE: usize = {
        // kmalloc guarantees no more for sizes that are not powers of two.
        assert!(core::mem::align_of::<Self>() <= core::mem::align_of::<u64>());
        core::mem::size_of::<Self>()
    };

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

    /// Makes a device called `name` on `ndev`, whose MAC address the GUID is derived from, and
    /// registers it. `init` makes the driver's data, before anything else can see the device. `is_sound` is asked of the
    /// device once it can be found by the notices about `ndev`: whether it missed one before.
    ///
    /// Process context, without RTNL. When this returns the device may be gone again, so there is
    /// no reference to it.
    ///
    /// What `init` says; ENODEV when the interface is going away; ENFILE if there is such a name;
    /// ENOMEM; what `query_device` and `query_port` say; ENODEV when no link types are registered
    /// (see [`link::Links`]).
    pub(crate) fn register(
        name: &CStr,
        ndev: &NetDevice,
        init: impl PinInit<D, Error>,
        is_sound: impl FnOnce(&D) -> bool,
    ) -> Result {
        let (owner, link_ops) = (owner::owner(), link::ops());
        if owner.is_null() || link_ops.is_null() {
            return Err(ENODEV);
        }
        // SAFETY: the size is more than that of `ib_device`; the interface is valid.
        let ib = unsafe { ffi::oxe_ib_device_alloc(Self::SIZE, ndev.as_raw()) };
        let device = Unregistered(NonNull::new(ib).ok_or(ENOMEM)?);
        // SAFETY: `ib` is the first member of zeroed memory for a `Self`, which does not move.
        unsafe { ffi::compat::pinned_init(init, &raw mut (*ib.cast::<Self>()).data) }?;
        // SAFETY: nobody else knows the device yet. The table is static, and ib_core copies it.
        // From here on `dealloc_driver` drops the data.
        unsafe {
            ffi::ib_set_device_ops(ib, ops::table::<D>());
            (*ib).ops.owner = owner;
            (*ib).link_ops = link_ops;
            (*ib).name_assign_type = ffi::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
            (*ib).node_type = ffi::RDMA_NODE_IB_CA as u8;
            (*ib).node_guid = guid(ndev.address());
            (*ib).phys_port_cnt = super::PORT;
            (*ib).num_comp_vectors = ffi::oxe_possible_cpus() as kernel::ffi::c_int;
            (*ib).uverbs_cmd_mask |= ops::COMMANDS;
        }
        set_node_desc(ib, name.to_bytes());
        // SAFETY: device and interface are valid.
        to_result(unsafe { ffi::ib_device_set_netdev(ib, ndev.as_raw(), super::PORT) })?;
        // SAFETY: the device is set up as ib_core wants it. Without a DMA device it uses virtual
        // addresses.
        to_result(unsafe {
            ffi::ib_register_device(ib, name.as_char_ptr(), core::ptr::null_mut())
        })?;
        // It is ib_core's now, until `dealloc_driver`.
        core::mem::forget(device);
        Self::check_netdev(ndev, is_sound)
    }

    /// If `ndev` began to go away, or moved, while its device was being registered, nobody has found the
    /// device to tell it so: unregisters it and gives ENODEV.
    fn check_netdev(ndev: &NetDevice, is_sound: impl FnOnce(&D) -> bool) -> Result {
        if let Some(device) = DeviceRef::<D>::by_netdev(ndev) {
            if is_sound(&device) {
                return Ok(());
            }
            let ib = device.as_raw();
            core::mem::forget(device);
            // SAFETY: the device is registered, and this gives up the reference that keeps it so.
            // Process context without RTNL, as `register` wants it.
            unsafe { ffi::ib_unregister_device_and_put(ib) };
        }
        Err(ENODEV)
    }

    /// Tells the users of the port's state if it has changed since they were told last.
    ///
    /// ib_core does this by itself on events of the network interface, except that it leaves bonds
    /// to their drivers. Doing it twice does no harm. Process context, also under RTNL.
    pub(crate) fn port_changed(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::oxe_ib_port_changed(self.as_raw()) };
    }

    /// The name. It may be changed by `rdma dev set`, so it is copied.
    pub(crate) fn name(&self) -> DeviceName {
        let mut name = DeviceName([0; DeviceName::LEN]);
        // SAFETY: the device is valid, and there is room for the longest name.
        unsafe {
            ffi::oxe_ib_device_name(self.as_raw(), name.0.as_mut_ptr().cast(), DeviceName::LEN)
        };
        name
    }

    /// The node's GUID, its first byte on the wire the most significant.
    pub(crate) fn node_guid(&self) -> u64 {
        // SAFETY: the device is valid, and this does not change.
        u64::from_be(unsafe { (*self.as_raw()).node_guid })
    }
}

/// A device's name at some time.
pub(crate) struct DeviceName([u8; DeviceName::LEN]);

impl DeviceName {
    const LEN: usize = ffi::IB_DEVICE_NAME_MAX as usize;
}

impl kernel::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        let name = CStr::from_bytes_until_nul(&self.0).map_or(&[][..], CStr::to_bytes);
        f.write_str(core::str::from_utf8(name).unwrap_or("?"))
    }
}

/// The EUI-64 of a MAC address, as it lies in memory (RFC 4291, appendix A).
fn guid(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_ne_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Sets what the node says it is: `text`, cut to the field's size and filled up with zeroes.
/// Process context.
pub(super) fn set_node_desc(ib: *mut ffi::ib_device, text: &[u8]) {
    let mut desc = [0_u8; ffi::IB_DEVICE_NODE_DESC_MAX as usize];
    for (to, from) in desc.iter_mut().zip(text) {
        *to = *from;
    }
    // SAFETY: callers have a valid device; the text has the size of the field.
    unsafe { ffi::oxe_ib_set_node_desc(ib, desc.as_ptr().cast()) };
}

/// A reference that keeps a device registered: give it up soon.
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
        // rdma_rxe's devices have the same driver id. It is kept out, but memory safety shall not
        // hang on that. SAFETY: the device is valid while we have the reference; the owner does not
        // change.
        if unsafe { (*ib.as_ptr()).ops.owner } != owner::owner() {
            // SAFETY: this is the reference that we got above.
            unsafe { ffi::ib_device_put(ib.as_ptr()) };
            return None;
        }
        // INVARIANT: all devices of this module are made by `Device::<D>::register`.
        Some(DeviceRef(ib.cast()))
    }

    /// Whether `gid` is in the port's table as an address of interface `oif`, which is in the namespace where `near` is.
    /// Any context.
    pub(crate) fn has_gid(&self, near: &NetDevice, oif: u32, gid: &[u8; 16]) -> bool {
        // SAFETY: device and interface are valid, and so are 16 bytes.
        unsafe { ffi::oxe_gid_is_here(self.as_raw(), near.as_raw(), oif, gid.as_ptr()) }
    }

    /// Has the device unregistered by a worker. May be called under RTNL, and more than once.
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

/// The operation `dealloc_driver`: nobody uses the device any more.
///
/// # Safety
///
/// For ib_core alone, in the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(ib: *mut ffi::ib_device) {
    // SAFETY: ib_core gives a device of ours, once; the data were initialised before this operation
    // was set. They are not used again.
    unsafe { core::ptr::drop_in_place(&raw mut (*ib.cast::<Device<D>>()).data) };
}
