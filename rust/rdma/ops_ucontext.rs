// SPDX-License-Identifier: GPL-2.0

//! Operations on contexts of processes and on protection domains.

use super::device::Device;
use super::driver::Driver;
use super::mmap::Registry;
use super::object::Object;
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::sync::Arc;

/// The Rust value behind a process's context.
pub(super) struct Context<D: Driver> {
    /// The buffers that the process may map.
    pub(super) registry: Arc<Registry>,
    /// The driver's part.
    driver: D::Ucontext,
}

/// The object that ib_core allocates for a context.
pub(super) type ContextObject<D> = Object<ffi::ib_ucontext, Context<D>>;

/// The object that ib_core allocates for a protection domain.
pub(super) type PdObject<D> = Object<ffi::ib_pd, <D as Driver>::Pd>;

/// The driver's part of the context of a call by a process; `None` for a kernel user.
///
/// # Safety
///
/// `udata` is null, or that of a call on a device driven by `D`, which lasts for `'a` and has a
/// context.
pub(super) unsafe fn of_call<'a, D: Driver>(udata: *mut ffi::ib_udata) -> Option<&'a D::Ucontext> {
    if udata.is_null() {
        return None;
    }
    // SAFETY: a non-null `udata` is part of the call's attributes.
    let context = unsafe { ffi::oxe_udata_ucontext(udata) };
    // SAFETY: it was made by `alloc_ucontext`, and outlives calls in it.
    (!context.is_null()).then(|| unsafe { &ContextObject::<D>::get(context).driver })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_ucontext<D: Driver>(
    context: *mut ffi::ib_ucontext,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a context under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*context).device) };
        let value = Context::<D> {
            registry: Registry::new()?,
            driver: D::alloc_ucontext(dev)?,
        };
        // SAFETY: it was allocated with `ContextObject::SIZE`, and no other thread can access it
        // yet.
        unsafe { ContextObject::<D>::init(context, value) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_ucontext<D: Driver>(context: *mut ffi::ib_ucontext) {
    // SAFETY: it was initialised by `alloc_ucontext`, and no call in it is in progress any more.
    let value = unsafe { ContextObject::<D>::take(context) };
    value.registry.close();
}

/// Called when a process is about to lose its device while it has mappings. Our mappings hold their
/// pages, so there is nothing to do. But ib_core removes a device in use only if this operation
/// exists.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn disassociate_ucontext(_context: *mut ffi::ib_ucontext) {}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn alloc_pd<D: Driver>(
    pd: *mut ffi::ib_pd,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a domain under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*pd).device) };
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let value = D::alloc_pd(dev, unsafe { of_call::<D>(udata) })?;
        // SAFETY: it was allocated with `PdObject::SIZE`, and no other thread can access it yet.
        unsafe { PdObject::<D>::init(pd, value) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn dealloc_pd<D: Driver>(
    pd: *mut ffi::ib_pd,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was initialised by `alloc_pd`; ib_core has seen to it that no object uses it.
    drop(unsafe { PdObject::<D>::take(pd) });
    0
}
