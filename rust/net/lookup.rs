// SPDX-License-Identifier: GPL-2.0

//! Looking up the network device that has an address.

use super::netdev::NetDevice;
use crate::ffi;

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
