// SPDX-License-Identifier: GPL-2.0

//! Operations on the device and its port.

use super::attr::{DeviceAttr, PortAttr};
use super::device::{set_node_desc, Device};
use super::driver::Driver;
use crate::ffi;
use kernel::error::{from_result, to_result};
use kernel::ffi::c_int;
use kernel::prelude::*;

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_device<D: Driver>(
    ib: *mut ffi::ib_device,
    attr: *mut ffi::ib_device_attr,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives null or the call's own `udata`.
        to_result(unsafe { ffi::oxe_udata_in_empty(udata) })?;
        let mut told = DeviceAttr::default();
        // SAFETY: ib_core gives a device of ours.
        D::query_device(unsafe { Device::<D>::from_raw(ib) }, &mut told);
        // SAFETY: ib_core gives a zeroed structure to fill in.
        told.fill(unsafe { &mut *attr });
        // SAFETY: as above.
        to_result(unsafe { ffi::oxe_udata_no_response(udata) })?;
        Ok(0)
    })
}

/// Changes the node description, the only attribute that can be changed.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn modify_device(
    ib: *mut ffi::ib_device,
    mask: c_int,
    modify: *mut ffi::ib_device_modify,
) -> c_int {
    from_result(|| {
        // CAST: it is bit 1.
        let node_desc = ffi::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC as c_int;
        if mask & !node_desc != 0 {
            return Err(super::error::unsupported());
        }
        if mask & node_desc != 0 {
            // SAFETY: ib_core gives the text, a plain array.
            let text = unsafe { (*modify).node_desc };
            set_node_desc(ib, &text);
        }
        Ok(0)
    })
}

/// EINVAL for any port but port 1, ENODEV when the network interface is gone.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_port<D: Driver>(
    ib: *mut ffi::ib_device,
    port: u32,
    attr: *mut ffi::ib_port_attr,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        let mut attrs = ffi::oxe_link_attrs::default();
        // SAFETY: ib_core gives a device, in process context without RTNL.
        to_result(unsafe { ffi::oxe_ib_link_attrs(ib, &mut attrs) })?;
        let mut told = PortAttr::new(&attrs);
        // SAFETY: ib_core gives a device of ours.
        let dev = unsafe { Device::<D>::from_raw(ib) };
        D::query_port(dev, &mut told)?;
        // SAFETY: ib_core gives a zeroed structure to fill in.
        told.fill(unsafe { &mut *attr }, D::gid_table_len(dev));
        Ok(0)
    })
}

fn check_port(port: u32) -> Result {
    if port == super::port::PORT {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_pkey(
    _ib: *mut ffi::ib_device,
    port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        if index >= super::port::PKEY_TABLE_LEN {
            return Err(EINVAL);
        }
        // SAFETY: ib_core gives a place for the answer.
        unsafe { *pkey = super::port::DEFAULT_PKEY };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn get_port_immutable<D: Driver>(
    ib: *mut ffi::ib_device,
    port: u32,
    immutable: *mut ffi::ib_port_immutable,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        // SAFETY: ib_core gives a device of ours, and a structure to fill in.
        let (dev, immutable) = unsafe { (Device::<D>::from_raw(ib), &mut *immutable) };
        immutable.core_cap_flags = ffi::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
        immutable.gid_tbl_len = c_int::from(D::gid_table_len(dev));
        immutable.pkey_tbl_len = c_int::from(super::port::PKEY_TABLE_LEN);
        // CAST: it is 256.
        immutable.max_mad_size = super::port::MAD_SIZE as u32;
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn get_link_layer(
    _ib: *mut ffi::ib_device,
    _port: u32,
) -> ffi::rdma_link_layer {
    ffi::rdma_link_layer_IB_LINK_LAYER_ETHERNET
}

/// How many counters a driver may have.
const MAX_COUNTERS: usize = 64;

/// How long ib_core may report values before it reads them again, in milliseconds (its default).
const LIFESPAN: kernel::ffi::c_ulong = 10;

/// Holds the names of each driver's counters.
struct Counters<D>(core::marker::PhantomData<D>);

impl<D: Driver> Counters<D> {
    const DESCS: [ffi::rdma_stat_desc; MAX_COUNTERS] = {
        assert!(D::COUNTERS.len() <= MAX_COUNTERS);
        let mut descs = [ffi::rdma_stat_desc {
            name: core::ptr::null(),
            flags: 0,
            priv_: core::ptr::null(),
        }; MAX_COUNTERS];
        let mut i = 0;
        while i < D::COUNTERS.len() {
            descs[i].name = kernel::str::as_char_ptr_in_const_context(D::COUNTERS[i]);
            i += 1;
        }
        descs
    };
}

/// Values of all of the driver's counters. Null if there is no memory. Process context.
pub(super) fn alloc_stats<D: Driver>() -> *mut ffi::rdma_hw_stats {
    let descs = const { &Counters::<D>::DESCS };
    // CAST: a driver lists its counters by hand.
    let count = D::COUNTERS.len() as c_int;
    // SAFETY: the names are static, and there are at least as many as counters.
    unsafe { ffi::rdma_alloc_hw_stats_struct(descs.as_ptr(), count, LIFESPAN) }
}

/// Null if there is no memory. ib_core frees it.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_hw_port_stats<D: Driver>(
    _ib: *mut ffi::ib_device,
    _port: u32,
) -> *mut ffi::rdma_hw_stats {
    alloc_stats::<D>()
}

/// Updates all counters. EINVAL for counters of the device itself: there are none.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn get_hw_stats<D: Driver>(
    ib: *mut ffi::ib_device,
    stats: *mut ffi::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        let n = D::COUNTERS.len();
        // SAFETY: `alloc_stats` allocated it for `n` values, and ib_core's lock excludes
        // other users.
        let values = unsafe { core::slice::from_raw_parts_mut((*stats).value.as_mut_ptr(), n) };
        // SAFETY: ib_core gives a device of ours.
        D::counters(unsafe { Device::<D>::from_raw(ib) }, values);
        // CAST: as in `alloc_stats`.
        Ok(n as c_int)
    })
}

/// # Safety
///
/// Only the device's file in sysfs calls this, which is there while it is registered.
pub(super) unsafe extern "C" fn loopback<D: Driver>(ib: *mut ffi::ib_device) -> bool {
    // SAFETY: it is a device of ours.
    D::loopback(unsafe { Device::<D>::from_raw(ib) })
}

/// # Safety
///
/// As for [`loopback`].
pub(super) unsafe extern "C" fn set_loopback<D: Driver>(ib: *mut ffi::ib_device, on: bool) {
    // SAFETY: it is a device of ours.
    D::set_loopback(unsafe { Device::<D>::from_raw(ib) }, on);
}
