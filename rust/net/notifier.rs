// SPDX-License-Identifier: GPL-2.0

//! Events of network devices: the netdevice notifier.

use super::netdev::NetDevice;
use crate::ffi::{self, notifier_block};
use kernel::error::to_result;
use kernel::ffi::{c_int, c_ulong, c_void};
use kernel::prelude::*;
use kernel::types::Opaque;

// enum netdev_cmd.
const NETDEV_UP: c_ulong = 1;
const NETDEV_DOWN: c_ulong = 2;
const NETDEV_CHANGE: c_ulong = 4;
const NETDEV_REGISTER: c_ulong = 5;
const NETDEV_UNREGISTER: c_ulong = 6;
const NETDEV_CHANGEMTU: c_ulong = 7;
const NETDEV_CHANGEADDR: c_ulong = 8;
const NETDEV_CHANGENAME: c_ulong = 11;
/// NOTIFY_OK: seen, go on.
const NOTIFY_OK: c_int = 1;

/// An event of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It was registered.
    Register,
    /// It was set up.
    Up,
    /// It was set down.
    Down,
    /// Its state changed: the carrier came or went, among others.
    Change,
    /// It has another MTU.
    ChangeMtu,
    /// It has another hardware address.
    ChangeAddr,
    /// It has another name.
    ChangeName,
    /// It is being unregistered, or moved to another network namespace: drop references to it.
    Unregister,
    /// Something else (the number is the kernel's).
    Other(u64),
}

impl From<c_ulong> for Event {
    fn from(event: c_ulong) -> Self {
        match event {
            NETDEV_UP => Event::Up,
            NETDEV_DOWN => Event::Down,
            NETDEV_CHANGE => Event::Change,
            NETDEV_REGISTER => Event::Register,
            NETDEV_UNREGISTER => Event::Unregister,
            NETDEV_CHANGEMTU => Event::ChangeMtu,
            NETDEV_CHANGEADDR => Event::ChangeAddr,
            NETDEV_CHANGENAME => Event::ChangeName,
            other => Event::Other(other as u64),
        }
    }
}

/// Receives the events.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Called in process context with the RTNL lock held, for devices of all namespaces.
    fn event(&self, event: Event, dev: &NetDevice);
}

/// Delivers events to its handler as long as it lives.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier<H: Handler> {
    #[pin]
    block: Opaque<notifier_block>,
    handler: H,
}

// SAFETY: registering and unregistering do not depend on the thread, and the handler may be sent.
unsafe impl<H: Handler> Send for Notifier<H> {}
// SAFETY: a shared reference gives access to the handler alone, which is `Sync`.
unsafe impl<H: Handler> Sync for Notifier<H> {}

impl<H: Handler> Notifier<H> {
    /// An initialiser which registers the notifier. Process context, without the RTNL lock.
    ///
    /// Registration calls the handler with [`Event::Register`] and [`Event::Up`] for the devices
    /// that exist, before it returns.
    pub(crate) fn new(handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // The fields are initialised in this order: the handler is there when the first event
            // comes.
            handler,
            block <- Opaque::try_ffi_init(|block: *mut notifier_block| {
                let content = notifier_block {
                    notifier_call: Some(Self::call),
                    ..Default::default()
                };
                // SAFETY: the place is valid for writes.
                unsafe { block.write(content) };
                // SAFETY: the block is initialised, and stays there until `drop` has unregistered
                // it.
                to_result(unsafe { ffi::oxe_netdev_notifier_register(block) })
            }),
        })
    }

    /// # Safety
    ///
    /// Called by the notifier chain, with the block of a registered `Self` and an event of a
    /// device.
    unsafe extern "C" fn call(
        block: *mut notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        // SAFETY: the block is the first field of a `repr(C)` `Self`, whose handler is initialised.
        let handler = unsafe { &(*block.cast::<Self>()).handler };
        // SAFETY: the event names a device, which lives through the call.
        let dev = unsafe { NetDevice::from_raw(ffi::oxe_netdev_of_notice(info)) };
        handler.event(event.into(), dev);
        NOTIFY_OK
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Notifier<H> {
    /// Unregisters the notifier. The handler gets [`Event::Down`] and [`Event::Unregister`] for
    /// each device, as the kernel sends them to a notifier that it unregisters. Process context,
    /// without the RTNL lock.
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: it was registered, since it was initialised.
        unsafe { ffi::oxe_netdev_notifier_unregister(self.block.get()) };
    }
}
