// SPDX-License-Identifier: GPL-2.0

//! The driver as a client of ib_core, which tells its clients when a device comes and when it goes.
//!
//! That is the one place where every way of removal passes by, and before processes lose the
//! device: ib_core removes a device from its clients in the reverse order of their registration,
//! and `ib_uverbs` has registered before this module (see `oxe_after_uverbs`).

use super::device::Device;
use super::driver::Driver;
use super::{error, owner};
use crate::ffi;
use core::marker::PhantomData;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::types::Opaque;

/// While this [`struct ib_client`] exists, [`Driver::added`], [`Driver::renamed`] and
/// [`Driver::removing`] are called.
///
/// [`struct ib_client`]: srctree/include/rdma/ib_verbs.h
///
/// # Invariants
///
/// `client` is registered and stays in its place.
pub(crate) struct Client<D: Driver> {
    client: Pin<KBox<Opaque<ffi::ib_client>>>,
    _driver: PhantomData<fn() -> D>,
}

// SAFETY: registration belongs to no thread, and there is nothing to do with it but to drop it.
unsafe impl<D: Driver> Send for Client<D> {}
// SAFETY: as above.
unsafe impl<D: Driver> Sync for Client<D> {}

impl<D: Driver> Client<D> {
    /// Registers the client. To be called before there are devices of ours, and dropped after that.
    ///
    /// Process context. ENOMEM.
    pub(crate) fn register(name: &'static CStr) -> Result<Self> {
        let client = ffi::ib_client {
            name: name.as_char_ptr(),
            add: Some(add::<D>),
            remove: Some(remove::<D>),
            rename: Some(rename::<D>),
            ..Default::default()
        };
        let client = KBox::pin(Opaque::new(client), GFP_KERNEL)?;
        // SAFETY: the structure is initialised, and stays in its place until it is unregistered.
        to_result(unsafe { ffi::ib_register_client(client.get()) })?;
        // INVARIANT: registered just now.
        Ok(Client {
            client,
            _driver: PhantomData,
        })
    }
}

impl<D: Driver> Drop for Client<D> {
    /// Process context, without RTNL.
    fn drop(&mut self) {
        // SAFETY: by the type's invariant. When this returns, no call is in progress.
        unsafe { ffi::ib_unregister_client(self.client.get()) };
    }
}

/// The operation `add`, for the devices of all drivers. EOPNOTSUPP for one that is not ours.
///
/// # Safety
///
/// Only ib_core calls this, through the client that it is in.
unsafe extern "C" fn add<D: Driver>(ib: *mut ffi::ib_device) -> c_int {
    // SAFETY: ib_core gives a device.
    if !unsafe { owner::is_ours(ib) } {
        return error::unsupported().to_errno();
    }
    // SAFETY: all devices of this module are made by `Device::<D>::register`, and their data are
    // initialised before they are registered.
    D::added(unsafe { Device::<D>::from_raw(ib) });
    0
}

/// The operation `rename`, for a device that was added.
///
/// # Safety
///
/// Only ib_core calls this, through the client that it is in.
unsafe extern "C" fn rename<D: Driver>(ib: *mut ffi::ib_device, _data: *mut c_void) {
    // SAFETY: as in `remove`.
    D::renamed(unsafe { Device::<D>::from_raw(ib) });
}

/// The operation `remove`, for a device that was added.
///
/// # Safety
///
/// Only ib_core calls this, through the client that it is in.
unsafe extern "C" fn remove<D: Driver>(ib: *mut ffi::ib_device, _data: *mut c_void) {
    // SAFETY: `add` took the device, so it is ours; its data are not dropped before its clients
    // have let go of it.
    D::removing(unsafe { Device::<D>::from_raw(ib) });
}
