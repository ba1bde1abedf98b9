// SPDX-License-Identifier: GPL-2.0

//! Operations on counters of queue pairs.
//!
//! ib_core makes a counter for the first queue pair that is bound to it, and frees it when the last
//! one is unbound. It holds the counter's mutex while it binds, unbinds and reads. A counter whose
//! first bind fails is freed without `counter_dealloc`, so the driver's part is made by a bind that
//! then succeeds.

use super::device::Device;
use super::driver::Driver;
use super::object::Object;
use super::ops_device::alloc_stats;
use super::ops_qp::QpObject;
use crate::ffi;
use kernel::error::from_result;
use kernel::ffi::{c_int, c_ulong};
use kernel::prelude::*;
use kernel::sync::SetOnce;

/// The object that ib_core allocates for a counter.
pub(super) type CounterObject<D> = Object<ffi::rdma_counter, SetOnce<<D as Driver>::Counter>>;

/// Bits of a word of ib_core's bitmaps.
const BITS: usize = c_ulong::BITS as usize;

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_init<D: Driver>(counter: *mut ffi::rdma_counter) {
    // SAFETY: it was allocated with `CounterObject::SIZE`, and no other thread uses it yet.
    unsafe { CounterObject::<D>::init(counter, SetOnce::new()) };
}

/// Null if there is no memory. ib_core frees it.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_alloc_stats<D: Driver>(
    _counter: *mut ffi::rdma_counter,
) -> *mut ffi::rdma_hw_stats {
    const { assert!(D::QP_COUNTERS <= D::COUNTERS.len()) };
    // ib_core adds the values to those of the port, by their places: it reads as many as a port
    // has, and shows those that are not disabled.
    let stats = alloc_stats::<D>();
    if !stats.is_null() {
        for index in D::QP_COUNTERS..D::COUNTERS.len() {
            let (word, bit) = (index / BITS, index % BITS);
            // SAFETY: the object is new, so no one else accesses it. Its bitmap has a bit for each
            // of the `D::COUNTERS.len()` counters that it was allocated for.
            unsafe { *(*stats).is_disabled.add(word) |= 1 << bit };
        }
    }
    stats
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_bind_qp<D: Driver>(
    counter: *mut ffi::rdma_counter,
    qp: *mut ffi::ib_qp,
    _port: u32,
) -> c_int {
    from_result(|| {
        // SAFETY: ib_core gives a queue pair that was initialised by `create_qp` and is not being
        // destroyed, of a device of ours.
        let (dev, part) = unsafe { (Device::<D>::from_raw((*qp).device), QpObject::<D>::get(qp)) };
        // SAFETY: ib_core gives a counter that was initialised by `counter_init`.
        let place = unsafe { CounterObject::<D>::get(counter) };
        if place.as_ref().is_none() {
            let (made, number) = D::alloc_counter(dev)?;
            place.populate(made);
            // SAFETY: the counter is not published yet, and its mutex is held.
            unsafe { (*counter).id = number };
        }
        D::bind_counter(place.as_ref().ok_or(EINVAL)?, &part.driver);
        // SAFETY: the queue pair and the counter are valid.
        unsafe { ffi::oxe_ib_qp_set_counter(qp, counter) };
        Ok(0)
    })
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_unbind_qp<D: Driver>(
    qp: *mut ffi::ib_qp,
    _port: u32,
) -> c_int {
    // SAFETY: ib_core gives a queue pair that was initialised by `create_qp` and is not destroyed
    // yet.
    let part = unsafe { QpObject::<D>::get(qp) };
    D::unbind_counter(&part.driver);
    // SAFETY: the queue pair is valid.
    unsafe { ffi::oxe_ib_qp_set_counter(qp, core::ptr::null_mut()) };
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_dealloc<D: Driver>(
    counter: *mut ffi::rdma_counter,
) -> c_int {
    // SAFETY: it was initialised by `counter_init`, and ib_core allows no other use of it any more.
    drop(unsafe { CounterObject::<D>::take(counter) });
    0
}

/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn counter_update_stats<D: Driver>(
    counter: *mut ffi::rdma_counter,
) -> c_int {
    // SAFETY: ib_core gives a counter that was initialised by `counter_init`.
    let place = unsafe { CounterObject::<D>::get(counter) };
    if let Some(own) = place.as_ref() {
        // SAFETY: `counter_alloc_stats` has set it.
        let values = unsafe { (*(*counter).stats).value.as_mut_ptr() };
        for index in 0..D::QP_COUNTERS {
            let value = D::counter_value(own, index);
            // SAFETY: it was allocated for more values. The counter's mutex excludes others that
            // write; ib_core reads without it.
            unsafe { values.add(index).write_volatile(value) };
        }
    }
    0
}
