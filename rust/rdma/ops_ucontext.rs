// SPDX-License-Identifier: GPL-2.0

//! Operations on contexts of processes, and the context of a call.

use super::device::Device;
use super::driver::Driver;
use super::mmap::Registry;
use super::object::Object;
use super::udata::UserCtx;
use crate::ffi;
use core::ptr::NonNull;
use kernel::error::{from_result, to_result};
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The Rust value behind a process's context.
pub(super) struct Context<D: Driver> {
    /// The buffers that the process may map.
    registry: Arc<Registry>,
    /// The driver's part.
    driver: D::Ucontext,
}

/// The object that ib_core allocates for a context.
pub(super) type ContextObject<D> = Object<ffi::ib_ucontext, Context<D>>;

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

/// The process that calls a verb; `None` if a kernel user does.
///
/// EOPNOTSUPP if the process passes driver-private input: the driver knows none.
///
/// # Safety
///
/// `udata` is null or that of a call on a device driven by `D`, which lasts for `'a` and has a
/// context.
pub(super) unsafe fn caller<'a, D: Driver>(
    udata: *mut ffi::ib_udata,
) -> Result<Option<UserCtx<'a>>> {
    if !udata.is_null() {
        // SAFETY: a non-null `udata` is part of the call's attributes.
        to_result(unsafe { ffi::oxe_udata_in_empty(udata) })?;
    }
    // SAFETY: as this function's own requirements.
    unsafe { caller_with_input::<D>(udata) }
}

/// As [`caller`], for a verb whose driver-private input the driver knows.
///
/// # Safety
///
/// As for [`caller`].
pub(super) unsafe fn caller_with_input<'a, D: Driver>(
    udata: *mut ffi::ib_udata,
) -> Result<Option<UserCtx<'a>>> {
    let Some(udata) = NonNull::new(udata) else {
        return Ok(None);
    };
    // SAFETY: a non-null `udata` is part of the call's attributes.
    let context = unsafe { ffi::oxe_udata_ucontext(udata.as_ptr()) };
    let context = NonNull::new(context).ok_or(EINVAL)?;
    // SAFETY: the context was made by `alloc_ucontext`, and outlives calls in it.
    let own = unsafe { ContextObject::<D>::get(context.as_ptr()) };
    // SAFETY: the call lasts for `'a`, by the requirement of this function.
    Ok(Some(unsafe { UserCtx::new(udata, context, &own.registry) }))
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
