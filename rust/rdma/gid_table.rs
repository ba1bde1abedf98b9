// SPDX-License-Identifier: GPL-2.0

//! The GIDs of the devices: look-ups by network interface and address. ib_core adds and deletes
//! them by the operations in `ops_gid`.
//!
//! A GID is an address of the device's network interface, or of one above it: a VLAN, the bridge or
//! bond that it is a port of, a macvlan, perhaps in another network namespace.

use crate::ffi;
use crate::net::netdev::{NetDevice, NetdevId};
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
pub(crate) fn invalidate() {
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
