// SPDX-License-Identifier: GPL-2.0

//! A driver's details of an object, as `rdma resource show` prints them with `-dd`.

use crate::ffi;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CStr;

/// The place for details in ib_core's answer to a process with CAP_NET_ADMIN. Their names and
/// units are an interface.
pub(crate) struct Details {
    msg: NonNull<ffi::sk_buff>,
    /// What [`Details::write`] returns.
    result: Result,
}

impl Details {
    /// Adds a number.
    pub(crate) fn number(&mut self, name: &'static CStr, value: impl Into<u64>) {
        let value = value.into();
        let (msg, name) = (self.msg.as_ptr(), name.as_char_ptr());
        self.put(|| match u32::try_from(value) {
            // SAFETY: the message is valid and the caller's alone while `self` lives, and the name
            // ends with a zero.
            Ok(value) => unsafe { ffi::rdma_nl_put_driver_u32(msg, name, value) },
            // SAFETY: as above.
            Err(_) => unsafe { ffi::rdma_nl_put_driver_u64(msg, name, value) },
        });
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &'static CStr, text: &'static CStr) {
        let (msg, name, text) = (self.msg.as_ptr(), name.as_char_ptr(), text.as_char_ptr());
        // SAFETY: as in `number`; the text ends with a zero.
        self.put(|| unsafe { ffi::rdma_nl_put_driver_string(msg, name, text) });
    }

    /// Adds one more, unless one before it had no room.
    fn put(&mut self, put: impl FnOnce() -> c_int) {
        if self.result.is_ok() {
            self.result = to_result(put());
        }
    }

    /// Has `fill` write the details of an object into ib_core's answer, if the calling process may
    /// see them. EMSGSIZE if there is no room: ib_core goes on in the next message.
    ///
    /// # Safety
    ///
    /// ib_core is filling `msg`, an answer about an object, in the context of the process that it
    /// is for.
    pub(super) unsafe fn write(msg: *mut ffi::sk_buff, fill: impl FnOnce(&mut Details)) -> Result {
        let msg = NonNull::new(msg).ok_or(EINVAL)?;
        // SAFETY: any process may be asked about.
        if !unsafe { ffi::oxe_details_permitted() } {
            return Ok(());
        }
        // SAFETY: the message is valid, and ib_core's to fill, by the requirement of this function.
        let nest = unsafe { ffi::oxe_details_begin(msg.as_ptr()) };
        let nest = NonNull::new(nest).ok_or(EMSGSIZE)?;
        let mut details = Details {
            msg,
            result: Ok(()),
        };
        fill(&mut details);
        let result = details.result;
        // SAFETY: `nest` was begun in this message, and only this ends it.
        unsafe { ffi::oxe_details_end(msg.as_ptr(), nest.as_ptr(), result.is_ok()) };
        result
    }
}
