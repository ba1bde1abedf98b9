// SPDX-License-Identifier: GPL-2.0

//! Link types: `rdma link add NAME type TYPE netdev NDEV`, and `rdma link del NAME`.

use super::driver::Driver;
use super::owner;
use crate::ffi;
use crate::net::netdev::NetDevice;
use core::marker::PhantomData;
use kernel::error::from_result;
use kernel::ffi::{c_char, c_int};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::types::Opaque;

/// The address of the operations that our devices refer to; zero while there are no [`Links`].
static OPS: Atomic<usize> = Atomic::new(0);

kernel::sync::global_lock! {
    // SAFETY: initialised by `Links::register` before it registers the link types; only their
    // functions lock it.
    unsafe(uninit) static ADDING: Mutex<()> = ();
}

/// The operations that our devices refer to, or null.
pub(super) fn ops() -> *const ffi::rdma_link_ops {
    core::ptr::with_exposed_provenance(OPS.load(Acquire))
}

/// One link type, which is in ib_core's list.
type Ops = Pin<KBox<Opaque<ffi::rdma_link_ops>>>;

/// The link types of a driver ([`struct rdma_link_ops`]), while they are registered.
///
/// [`struct rdma_link_ops`]: srctree/include/rdma/rdma_netlink.h
///
/// When this is dropped, no devices can be made any more, and all existing devices are
/// unregistered. The drop returns when the last device is gone, so that the module can be unloaded.
///
/// # Invariants
///
/// Both types are registered. All devices refer to `main`.
pub(crate) struct Links<D: Driver> {
    main: Ops,
    compat: Option<Ops>,
    _driver: PhantomData<fn() -> D>,
}

// SAFETY: registration belongs to no thread, and there is nothing to do with it but to drop it.
unsafe impl<D: Driver> Send for Links<D> {}
// SAFETY: as above.
unsafe impl<D: Driver> Sync for Links<D> {}

impl<D: Driver> Links<D> {
    /// Registers link type `name`, and `compat` as well if there is one. From then on
    /// [`Driver::new_link`] is called.
    ///
    /// Process context. The module's init calls it, with its own argument as `module`. EBUSY the
    /// second time, ENOMEM.
    pub(crate) fn register(
        module: &'static ThisModule,
        name: &'static CStr,
        compat: Option<&'static CStr>,
    ) -> Result<Self> {
        let main = Self::new_ops(name, new_link::<D, false>)?;
        let compat = match compat {
            Some(name) => Some(Self::new_ops(name, new_link::<D, true>)?),
            None => None,
        };
        if !owner::claim(module) {
            return Err(EBUSY);
        }
        // SAFETY: `claim` succeeds only once, so this is not reached a second time.
        unsafe { ADDING.init() };
        OPS.store(main.get().expose_provenance(), Release);
        for ops in [Some(&main), compat.as_ref()].into_iter().flatten() {
            // SAFETY: the structure is initialised and stays in its place until it is taken out of
            // the list, in `drop`.
            unsafe { ffi::rdma_link_register(ops.get()) };
        }
        // SAFETY: the helper returns a string literal of the module's, whose code runs.
        let version = unsafe { CStr::from_char_ptr(ffi::oxe_version()) };
        pr_info!("{version}: rdma link add NAME type {name} netdev INTERFACE makes a device\n");
        Ok(Links {
            main,
            compat,
            _driver: PhantomData,
        })
    }

    fn new_ops(
        name: &'static CStr,
        newlink: unsafe extern "C" fn(*const c_char, *mut ffi::net_device) -> c_int,
    ) -> Result<Ops> {
        let ops = ffi::rdma_link_ops {
            type_: name.as_char_ptr(),
            newlink: Some(newlink),
            ..Default::default()
        };
        Ok(KBox::pin(Opaque::new(ops), GFP_KERNEL)?)
    }
}

impl<D: Driver> Drop for Links<D> {
    fn drop(&mut self) {
        for ops in [self.compat.as_ref(), Some(&self.main)]
            .into_iter()
            .flatten()
        {
            // SAFETY: it is in the list. When this returns, no call through it is in progress.
            unsafe { ffi::rdma_link_unregister(ops.get()) };
        }
        // SAFETY: no device of ours can be made any more, and other modules with the driver's id
        // are kept out (see `exclude`). When this returns there are no devices at all, so nothing
        // refers to `main`.
        unsafe { ffi::ib_unregister_driver(D::DRIVER_ID.0) };
        OPS.store(0, Release);
    }
}

/// The operation `newlink`. Process context, no RTNL. ib_core allows concurrent calls. The lock
/// serialises them, so that the second of two calls for one interface finds the first one's device.
///
/// # Safety
///
/// Only ib_core calls this, through the `rdma_link_ops` that it is in.
unsafe extern "C" fn new_link<D: Driver, const COMPAT: bool>(
    name: *const c_char,
    ndev: *mut ffi::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a terminated name, and a referenced interface.
        let (name, ndev) = unsafe { (CStr::from_char_ptr(name), NetDevice::from_raw(ndev)) };
        let _one_at_a_time = ADDING.lock();
        D::new_link(name, ndev, COMPAT)?;
        Ok(0)
    })
}
