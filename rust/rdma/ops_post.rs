// SPDX-License-Identifier: GPL-2.0

//! Posting work requests: lists of kernel users, and the doorbell of a process that has filled its
//! ring.

use super::driver::Driver;
use super::ops_qp::QpObject;
use super::post::{errno, post_each};
use super::wr::SendWr;
use crate::ffi;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// Posts requests one by one. If one is refused, those before it are started all the same. Any
/// context.
///
/// A process's queue pair takes its requests from the ring alone: EINVAL for any in the list. An
/// empty list is the doorbell.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn post_send<D: Driver>(
    qp: *mut ffi::ib_qp,
    list: *const ffi::ib_send_wr,
    bad: *mut *const ffi::ib_send_wr,
) -> c_int {
    // SAFETY: the queue pair was initialised by `create_qp` and is not being destroyed.
    let part = unsafe { QpObject::<D>::get(qp) };
    let mut result = Ok(());
    let mut next = list.cast_mut();
    while let Some(raw) = NonNull::new(next) {
        // The rest of the list is read now: once a request is posted it may complete on another
        // CPU, and its user frees it or posts it again.
        // SAFETY: the user gives a list of requests that end with a null pointer.
        next = unsafe { raw.as_ref().next };
        result = if part.user {
            Err(EINVAL)
        } else {
            // SAFETY: the user posts requests that go with the queue pair's service.
            unsafe { SendWr::<D::Ah>::new(raw, part.kind) }
                .and_then(|wr| D::post_send(&part.driver, &wr))
        };
        if result.is_err() {
            // SAFETY: the user gives a place for the request that was refused.
            unsafe { *bad = raw.as_ptr() };
            break;
        }
    }
    if !part.user || list.is_null() {
        let started = D::doorbell(&part.driver);
        if part.user {
            result = result.and(started);
        }
    }
    errno(result)
}

/// As [`post_send`]; a process has no doorbell for receives.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn post_recv<D: Driver>(
    qp: *mut ffi::ib_qp,
    list: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
) -> c_int {
    // SAFETY: the queue pair was initialised by `create_qp` and is not being destroyed.
    let part = unsafe { QpObject::<D>::get(qp) };
    // SAFETY: the user gives a list of requests that end with a null pointer, and a place for the
    // request that was refused.
    let result = unsafe { post_each(list, bad, part.user, |wr| D::post_recv(&part.driver, wr)) };
    if !part.user {
        D::posted_recv(&part.driver);
    }
    errno(result)
}
