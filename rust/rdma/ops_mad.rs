// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the driver answers.

use super::device::Device;
use super::driver::Driver;
use super::port::{MAD_SIZE, PORT};
use crate::ffi;
use kernel::ffi::c_int;

/// A datagram is processed: the driver has no reply.
const DONE: c_int = ffi::ib_mad_result_IB_MAD_RESULT_SUCCESS as c_int;

/// It is processed, and a reply is to be sent.
const REPLIED: c_int = DONE | ffi::ib_mad_result_IB_MAD_RESULT_REPLY as c_int;

/// Answers a management datagram: one that arrived at the GSI queue pair, or one by which ib_core
/// reads the counters of the port, those under `counters` in sysfs. Process context.
///
/// # Safety
///
/// Only ib_core calls this, through the table that [`super::ops`] makes.
pub(super) unsafe extern "C" fn process_mad<D: Driver>(
    ib: *mut ffi::ib_device,
    _flags: c_int,
    port: u32,
    _wc: *const ffi::ib_wc,
    _grh: *const ffi::ib_grh,
    request: *const ffi::ib_mad,
    reply: *mut ffi::ib_mad,
    reply_len: *mut usize,
    _pkey_index: *mut u16,
) -> c_int {
    // SAFETY: ib_core gives the length of the room for a reply.
    if port != PORT || unsafe { *reply_len } < MAD_SIZE {
        return DONE;
    }
    // SAFETY: ib_core gives a device of ours, and a datagram, whose bytes need no alignment.
    let (dev, request) = unsafe {
        (
            Device::<D>::from_raw(ib),
            &*request.cast::<[u8; MAD_SIZE]>(),
        )
    };
    let Some(bytes) = D::reply_to_mad(dev, request) else {
        return DONE;
    };
    // SAFETY: there is room for as many bytes, as was checked; it is apart from the request.
    unsafe { reply.cast::<[u8; MAD_SIZE]>().write(bytes) };
    REPLIED
}
