// SPDX-License-Identifier: GPL-2.0

//! Registration of devices.

use super::device::{set_node_desc, Device};
use super::driver::Driver;
use super::lookup::DeviceRef;
use super::port::PORT;
use super::{link, ops, ops_device, owner};
use crate::ffi;
use crate::net::netdev::{Kind, NetDevice};
use crate::sync::random_u32;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;

/// Frees a device that was not registered, when dropped.
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

    /// Makes a device called `name` on `ndev`, whose MAC address the GUID is derived from, and
    /// registers it. `init` makes the driver's data, before anything else can see the device.
    /// `is_sound` is called once events of `ndev` can find the device. It returns whether the
    /// device has missed none before.
    ///
    /// Process context, without RTNL. When this returns, the device may be gone again, so it
    /// returns no reference.
    ///
    /// The errors of `init`; ENODEV when the interface is going away; ENFILE if the name is in use;
    /// ENOMEM; the errors of `query_device` and `query_port`; ENODEV when no link types are
    /// registered (see [`link::Links`]).
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
        // SAFETY: no other thread can access the device yet. The table is static, and ib_core
        // copies it. From here on `dealloc_driver` drops the data.
        unsafe {
            ffi::ib_set_device_ops(ib, ops::table::<D>());
            (*ib).ops.owner = owner;
            ffi::oxe_ib_set_device_group(
                ib,
                Some(ops_device::loopback::<D>),
                Some(ops_device::set_loopback::<D>),
            );
            (*ib).link_ops = link_ops;
            (*ib).name_assign_type = ffi::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
            // CAST: it is 1.
            (*ib).node_type = ffi::RDMA_NODE_IB_CA as u8;
            (*ib).node_guid = guid(ndev);
            (*ib).phys_port_cnt = PORT;
            // CAST: kernels have 8,192 CPUs at most.
            (*ib).num_comp_vectors = ffi::oxe_possible_cpus() as kernel::ffi::c_int;
            (*ib).uverbs_cmd_mask |= ops::COMMANDS;
        }
        set_node_desc(ib, name.to_bytes());
        // SAFETY: device and interface are valid.
        to_result(unsafe { ffi::ib_device_set_netdev(ib, ndev.as_raw(), PORT) })?;
        // SAFETY: the device is set up as ib_core requires. Without a DMA device it uses virtual
        // addresses.
        to_result(unsafe {
            ffi::ib_register_device(ib, name.as_char_ptr(), core::ptr::null_mut())
        })?;
        // It is ib_core's now, until `dealloc_driver`.
        core::mem::forget(device);
        Self::check_netdev(ndev, is_sound)
    }

    /// If `ndev` began to go away, or moved, while its device was being registered, the notifier
    /// may not have found the device. Then this unregisters the device and returns ENODEV.
    fn check_netdev(ndev: &NetDevice, is_sound: impl FnOnce(&D) -> bool) -> Result {
        if let Some(device) = DeviceRef::<D>::by_netdev(ndev) {
            if is_sound(&device) {
                return Ok(());
            }
            let ib = device.as_raw();
            core::mem::forget(device);
            // SAFETY: the device is registered, and this gives up the reference that keeps it so.
            // Process context without RTNL, as `register` requires.
            unsafe { ffi::ib_unregister_device_and_put(ib) };
        }
        Err(ENODEV)
    }
}

/// The GUID of a device, as it lies in memory: the EUI-64 of the interface's MAC address (RFC 4291,
/// appendix A), or of a random one, locally administered, if the interface has none.
fn guid(ndev: &NetDevice) -> u64 {
    let [a, b, c, d, e, f] = match ndev.kind() {
        Kind::Ethernet => ndev.address(),
        _ => {
            let ([b, c, d, e], [f, ..]) = (random_u32().to_ne_bytes(), random_u32().to_ne_bytes());
            [2, b, c, d, e, f]
        }
    };
    u64::from_ne_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}
