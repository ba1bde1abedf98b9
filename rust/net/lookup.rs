// SPDX-License-Identifier: GPL-2.0

//! Looking up network devices: the one that has an address, those below
//! another.

use super::netdev::NetDevice;
use super::skb::RxSkb;
use crate::ffi;
use kernel::ffi::c_void;

/// Calls `f` with the device that has `address` (a GID: IPv4 is mapped into IPv6), if there is one
/// in the namespace where `near` is. Any context; `f` must not sleep, and can keep the device only
/// by `hold`.
///
/// For a packet that came over the loopback device, this finds the device that has the packet's
/// destination address.
pub(crate) fn owner<R>(
    near: &NetDevice,
    address: &[u8; 16],
    f: impl FnOnce(&NetDevice) -> R,
) -> Option<R> {
    let _reading = kernel::sync::rcu::read_lock();
    // SAFETY: the device lives and we read under RCU.
    let dev = unsafe { ffi::oxe_netdev_owner(near.as_raw(), address.as_ptr()) };
    // SAFETY: devices are freed after a grace period.
    (!dev.is_null()).then(|| f(unsafe { NetDevice::from_raw(dev) }))
}

/// Calls `f` with the device by which `packet` came, if `dev`, at which it arrived, is a VRF above
/// that. Softirq; `f` must not sleep.
pub(crate) fn below_vrf<R>(
    packet: &RxSkb,
    dev: &NetDevice,
    f: impl FnOnce(&NetDevice) -> R,
) -> Option<R> {
    let _reading = kernel::sync::rcu::read_lock();
    // SAFETY: the device lives, the packet is there, and we read under RCU.
    let slave = unsafe { ffi::oxe_rx_l3_slave(packet.skb.as_ptr(), dev.as_raw(), packet.is_v6()) };
    // SAFETY: devices are freed after a grace period.
    (!slave.is_null()).then(|| f(unsafe { NetDevice::from_raw(slave) }))
}

/// What `find` says of the first device below `dev`, at any depth, of which it says something. Any
/// context; `find` must not sleep.
pub(crate) fn find_below<R, F: FnMut(&NetDevice) -> Option<R>>(
    dev: &NetDevice,
    find: F,
) -> Option<R> {
    /// The search, and what it found.
    struct Search<F, R> {
        find: F,
        found: Option<R>,
    }

    /// # Safety
    ///
    /// `lower` is a device that is there, `data` a `Search` that is not used otherwise meanwhile.
    unsafe extern "C" fn look<F: FnMut(&NetDevice) -> Option<R>, R>(
        lower: *mut ffi::net_device,
        data: *mut c_void,
    ) -> bool {
        // SAFETY: this function's requirements.
        let (search, lower) = unsafe {
            (
                &mut *data.cast::<Search<F, R>>(),
                NetDevice::from_raw(lower),
            )
        };
        search.found = (search.find)(lower);
        search.found.is_some()
    }

    let mut search = Search { find, found: None };
    let _reading = kernel::sync::rcu::read_lock();
    // SAFETY: the device lives, we read under RCU, and the search outlives the call.
    unsafe {
        ffi::oxe_netdev_first_lower(dev.as_raw(), Some(look::<F, R>), (&raw mut search).cast())
    };
    search.found
}
