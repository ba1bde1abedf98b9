// SPDX-License-Identifier: GPL-2.0

//! Membership of network devices in multicast groups.

use super::netdev::NetDevice;
use crate::ffi;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// The RTNL lock, held: no network device comes or goes, and no other context changes memberships.
/// Released when dropped.
pub(crate) struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes the lock. Process context, sleeps.
    pub(crate) fn lock() -> Self {
        // SAFETY: no requirements beyond the context.
        unsafe { ffi::oxe_rtnl_lock() };
        Rtnl(NotThreadSafe)
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: this thread has taken it.
        unsafe { ffi::oxe_rtnl_unlock() };
    }
}

/// A multicast group, by its GID: an IPv6 address, or an IPv4 address in its mapped form.
#[derive(Clone, Copy)]
pub(crate) struct Address<'a> {
    /// The GID.
    pub(crate) gid: &'a [u8; 16],
    /// Whether it is an IPv6 address.
    pub(crate) v6: bool,
}

/// `dev` receives packets to the group, until as many calls of [`leave`], or until it leaves its
/// namespace.
///
/// ENODEV or EINVAL if it takes no part in the IP version; ENOMEM.
pub(crate) fn join(_held: &Rtnl, dev: &NetDevice, group: Address<'_>) -> Result {
    // SAFETY: the device lives, the address has 16 bytes, and the lock is held.
    to_result(unsafe { ffi::oxe_group_join(dev.as_raw(), group.gid.as_ptr(), group.v6) })
}

/// Takes [`join`] back. Does nothing if the device has left its namespace since.
pub(crate) fn leave(_held: &Rtnl, dev: &NetDevice, group: Address<'_>) {
    // SAFETY: as in `join`.
    unsafe { ffi::oxe_group_leave(dev.as_raw(), group.gid.as_ptr(), group.v6) };
}
