// SPDX-License-Identifier: GPL-2.0

//! Lists of work requests of kernel users.

use super::wr::RecvWr;
use crate::ffi;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// Posts the receive requests of a list one by one, until one is refused. EINVAL for any request if
/// `user`, as a process posts to its ring.
///
/// # Safety
///
/// `list` is a list of requests by ib_core's rules, which ends with a null pointer, and `bad` a
/// place for the request that was refused.
pub(super) unsafe fn post_each(
    list: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
    user: bool,
    mut post: impl FnMut(&RecvWr<'_>) -> Result,
) -> Result {
    let mut next = list;
    // SAFETY: by the requirement of this function.
    while let Some(raw) = unsafe { next.as_ref() } {
        // As in `post_send`: the user has a posted request back at any time.
        next = raw.next;
        let result = if user {
            Err(EINVAL)
        } else {
            // SAFETY: as above.
            unsafe { RecvWr::new(raw) }.and_then(|wr| post(&wr))
        };
        if result.is_err() {
            // SAFETY: as above.
            unsafe { *bad = raw };
            return result;
        }
    }
    Ok(())
}

/// The result as C functions return it.
pub(super) fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
