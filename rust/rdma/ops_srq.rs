// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues.

use super::details::Details;
use super::device::Device;
use super::driver::Driver;
use super::events::SrqEvents;
use super::object::Object;
use super::ops_pd::PdObject;
use super::ops_ucontext::{caller, caller_with_input};
use super::post::{errno, post_each};
use super::srq::{SrqAttr, SrqChange};
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// The Rust value behind a shared receive queue.
pub(super) struct SrqPart<D: Driver> {
    /// The driver's part.
    pub(super) driver: D::Srq,
    /// Whether a process owns it.
    user: bool,
    events: SrqEvents,
}

/// The object that ib_core allocates for a shared receive queue.
pub(super) type SrqObject<D> = Object<ffi::ib_srq, SrqPart<D>>;

/// EOPNOTSUPP for types other than the basic one.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn create_srq<D: Driver>(
    srq: *mut ffi::ib_srq,
    init: *mut ffi::ib_srq_init_attr,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives the call's attributes, which are ours to change.
        let init = unsafe { &mut *init };
        if init.srq_type != ffi::ib_srq_type_IB_SRQT_BASIC {
            return Err(super::error::unsupported());
        }
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let user = unsafe { caller::<D>(udata) }?;
        let is_user = user.is_some();
        // SAFETY: ib_core gives a queue under construction of a device that is ours.
        let dev = unsafe { Device::<D>::from_raw((*srq).device) };
        // SAFETY: the domain was made by `alloc_pd`, and outlives the queue.
        let pd = unsafe { PdObject::<D>::get((*srq).pd) };
        // SAFETY: the queue is valid until `events` is closed: by `destroy_srq`, or by the error
        // path below.
        let events = unsafe { SrqEvents::new(srq) }?;
        let wanted = SrqAttr::from_raw(&init.attr);
        let (driver, attr) = D::create_srq(dev, pd, &wanted, events.clone(), user)
            // The driver may have kept a handle, and ib_core frees the queue now.
            .inspect_err(|_| events.close())?;
        attr.fill(&mut init.attr);
        let part = SrqPart {
            driver,
            user: is_user,
            events,
        };
        // SAFETY: it was allocated with `SrqObject::SIZE`, and no other thread uses it yet.
        unsafe { SrqObject::<D>::init(srq, part) };
        Ok(0)
    })
}

/// EINVAL for attributes that cannot be changed.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn modify_srq<D: Driver>(
    srq: *mut ffi::ib_srq,
    attr: *mut ffi::ib_srq_attr,
    mask: ffi::ib_srq_attr_mask,
    udata: *mut ffi::ib_udata,
) -> c_int {
    from_result(|| {
        let (max_wr, limit) = (
            ffi::ib_srq_attr_mask_IB_SRQ_MAX_WR,
            ffi::ib_srq_attr_mask_IB_SRQ_LIMIT,
        );
        if mask & !(max_wr | limit) != 0 {
            return Err(EINVAL);
        }
        // SAFETY: ib_core gives the attributes of the call.
        let attr = SrqAttr::from_raw(unsafe { &*attr });
        let change = SrqChange {
            max_wr: (mask & max_wr != 0).then_some(attr.max_wr),
            limit: (mask & limit != 0).then_some(attr.limit),
        };
        // SAFETY: `udata` is null or the call's own, in a context of our device.
        let user = unsafe { caller_with_input::<D>(udata) }?;
        // SAFETY: the queue was initialised by `create_srq` and is not being destroyed.
        let part = unsafe { SrqObject::<D>::get(srq) };
        D::modify_srq(&part.driver, &change, user)?;
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn query_srq<D: Driver>(
    srq: *mut ffi::ib_srq,
    attr: *mut ffi::ib_srq_attr,
) -> c_int {
    // SAFETY: the queue was initialised by `create_srq` and is not being destroyed.
    let part = unsafe { SrqObject::<D>::get(srq) };
    // SAFETY: ib_core gives a structure to fill in.
    D::query_srq(&part.driver).fill(unsafe { &mut *attr });
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn destroy_srq<D: Driver>(
    srq: *mut ffi::ib_srq,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: it was initialised by `create_srq`, and ib_core allows no other use of it any more.
    let part = unsafe { SrqObject::<D>::get(srq) };
    D::destroy_srq(&part.driver);
    part.events.close();
    // SAFETY: as above; the reference from `get` is not used again.
    drop(unsafe { SrqObject::<D>::take(srq) });
    0
}

/// Posts receive requests of a kernel user one by one. A process fills its ring without a call:
/// EINVAL for any request of its. Any context.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn post_srq_recv<D: Driver>(
    srq: *mut ffi::ib_srq,
    list: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
) -> c_int {
    // SAFETY: the queue was initialised by `create_srq` and is not being destroyed.
    let part = unsafe { SrqObject::<D>::get(srq) };
    // SAFETY: the user gives a list of requests that end with a null pointer, and a place for the
    // request that was refused.
    errno(unsafe {
        post_each(list, bad, part.user, |wr| {
            D::post_srq_recv(&part.driver, wr)
        })
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn fill_res_srq_entry<D: Driver>(
    msg: *mut ffi::sk_buff,
    srq: *mut ffi::ib_srq,
) -> c_int {
    // SAFETY: it was initialised when it was made; ib_core's destroy waits for this call
    // (`rdma_restrack_begin_del`).
    let part = unsafe { SrqObject::<D>::get(srq) };
    from_result(|| {
        // SAFETY: ib_core answers a process here.
        unsafe { Details::write(msg, |details| D::srq_details(&part.driver, details)) }?;
        Ok(0)
    })
}
