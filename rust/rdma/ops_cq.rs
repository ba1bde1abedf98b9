// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use super::details::Details;
use super::device::Device;
use super::driver::{CqInit, Driver};
use super::events::CqEvents;
use super::object::Object;
use super::ops_ucontext::{caller, of_call};
use super::wc::WcSlots;
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// The Rust value behind a completion queue.
pub(super) struct CqPart<D: Driver> {
    /// The driver's part.
    pub(super) driver: D::Cq,
    events: CqEvents,
}

/// The object that ib_core allocates for a completion queue.
pub(super) type CqObject<D> = Object<ffi::ib_cq, CqPart<D>>;

/// For kernel users (`bundle` is null) and processes.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn create_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    attr: *const ffi::ib_cq_init_attr,
    bundle: *mut ffi::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives the attributes of the call.
        let attr = unsafe { &*attr };
        if attr.flags != 0 {
            return Err(super::error::unsupported());
        }
        let udata = if bundle.is_null() {
            core::ptr::null_mut()
        } else {
            // SAFETY: `bundle` is not null, so it is the call's own.
            unsafe { ffi::oxe_bundle_udata(bundle) }
        };
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let user = unsafe { caller::<D>(udata) }?;
        // SAFETY: ib_core gives a queue under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*cq).device) };
        // SAFETY: the queue is valid until `events` is closed: by `destroy_cq`, or by the error
        // path below.
        let events = unsafe { CqEvents::new(cq, attr.comp_vector, user.is_some()) }?;
        let init = CqInit { cqe: attr.cqe };
        // SAFETY: as for `user`.
        let context = unsafe { of_call::<D>(udata) };
        let (driver, cqe) = D::create_cq(dev, init, events.clone(), user, context)
            // The driver may have kept a handle, and ib_core frees the queue now.
            .inspect_err(|_| events.close())?;
        // SAFETY: the queue is under construction, so this is ours to set.
        unsafe { (*cq).cqe = c_int::try_from(cqe).unwrap_or(c_int::MAX) };
        // SAFETY: it was allocated with `CqObject::SIZE`, and no other thread uses it yet.
        unsafe { CqObject::<D>::init(cq, CqPart { driver, events }) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn resize_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    cqe: kernel::ffi::c_uint,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is the call's own, in a context of our device.
        let user = unsafe { caller::<D>(udata) }?.ok_or(EINVAL)?;
        // SAFETY: the queue was initialised by `create_cq` and is not being destroyed.
        let part = unsafe { CqObject::<D>::get(cq) };
        let cqe = D::resize_cq(&part.driver, cqe, user)?;
        // SAFETY: the queue is valid, and nothing holds a reference to this field.
        unsafe { (*cq).cqe = c_int::try_from(cqe).unwrap_or(c_int::MAX) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn modify_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    count: u16,
    period: u16,
) -> c_int {
    from_result(|| {
        // SAFETY: the queue was initialised by `create_cq` and is not being destroyed.
        D::modify_cq(&unsafe { CqObject::<D>::get(cq) }.driver, count, period)?;
        Ok(0)
    })
}

/// The queue's consumer is in the kernel, and gets no events from now on. Before [`destroy_cq`]
/// ib_core waits for the work that earlier ones started.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn pre_destroy_cq<D: Driver>(cq: *mut ffi::ib_cq) -> c_int {
    // SAFETY: the queue was initialised by `create_cq` and is not being destroyed yet.
    let part = unsafe { CqObject::<D>::get(cq) };
    D::destroy_cq(&part.driver);
    part.events.close();
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn destroy_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was initialised by `create_cq`, and ib_core allows no other use of it any more.
    let part = unsafe { CqObject::<D>::get(cq) };
    D::destroy_cq(&part.driver);
    part.events.close();
    // SAFETY: as above; the reference from `get` is not used again.
    drop(unsafe { CqObject::<D>::take(cq) });
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    room: c_int,
    wc: *mut ffi::ib_wc,
) -> c_int {
    // SAFETY: the queue was initialised by `create_cq` and is not being destroyed.
    let part = unsafe { CqObject::<D>::get(cq) };
    // SAFETY: ib_core gives an array of `room` completions.
    let mut slots = unsafe { WcSlots::new(wc, usize::try_from(room).unwrap_or(0)) };
    D::poll_cq(&part.driver, &mut slots);
    // CAST: there are no more than `room`.
    slots.filled() as c_int
}

/// Returns 1 if completions may have been missed and the caller asked to be told, else 0.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn req_notify_cq<D: Driver>(
    cq: *mut ffi::ib_cq,
    flags: ffi::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: the queue was initialised by `create_cq` and is not being destroyed.
    let part = unsafe { CqObject::<D>::get(cq) };
    let which = flags & ffi::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK;
    let solicited_only = which == ffi::ib_cq_notify_flags_IB_CQ_SOLICITED;
    let report = flags & ffi::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
    c_int::from(D::req_notify(&part.driver, solicited_only, report) && report)
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn fill_res_cq_entry<D: Driver>(
    msg: *mut ffi::sk_buff,
    cq: *mut ffi::ib_cq,
) -> c_int {
    // SAFETY: it was initialised when it was made; ib_core's destroy waits for this call
    // (`rdma_restrack_begin_del`).
    let part = unsafe { CqObject::<D>::get(cq) };
    from_result(|| {
        // SAFETY: ib_core answers a process here.
        unsafe { Details::write(msg, |details| D::cq_details(&part.driver, details)) }?;
        Ok(0)
    })
}
