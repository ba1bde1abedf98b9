// SPDX-License-Identifier: GPL-2.0

//! IP addresses that network devices get: the notifiers of IPv4 and IPv6.

use super::netdev::NetDevice;
use crate::ffi;
use core::marker::PhantomData;
use kernel::error::to_result;
use kernel::prelude::*;

/// Receives the events.
pub(crate) trait AddrHandler: 'static {
    /// A device of any namespace has got an address. Process or softirq context, perhaps under
    /// RTNL.
    fn added(dev: &NetDevice);
}

/// Delivers events to its handler as long as it lives. There is one of these.
pub(crate) struct AddrNotifier<H: AddrHandler>(PhantomData<fn() -> H>);

impl<H: AddrHandler> AddrNotifier<H> {
    /// Registers the handler. Process context; the module's init calls it, once.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the handler may be called from now on until `drop` has unregistered it.
        to_result(unsafe { ffi::oxe_addr_notifier_register(Some(added::<H>)) })?;
        Ok(Self(PhantomData))
    }
}

impl<H: AddrHandler> Drop for AddrNotifier<H> {
    /// When it returns, each call of the handler that had begun is over. Process context.
    fn drop(&mut self) {
        // SAFETY: it was registered.
        unsafe { ffi::oxe_addr_notifier_unregister() };
    }
}

/// # Safety
///
/// Called by the notifiers, with a device that lives through the call.
unsafe extern "C" fn added<H: AddrHandler>(dev: *mut ffi::net_device) {
    // SAFETY: this function's requirements.
    H::added(unsafe { NetDevice::from_raw(dev) });
}
