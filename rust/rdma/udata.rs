// SPDX-License-Identifier: GPL-2.0

//! Driver-private data of verbs (udata): input and response that a process and the driver exchange
//! beside a verb's own arguments.

use super::mmap::{Cookie, Registry};
use super::shared::SharedBuf;
use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::uaccess::{UserPtr, UserSlice};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The process that calls a verb. Process context, in the calling process.
///
/// # Invariants
///
/// `udata` and `context` are those of the call under way, which lasts for `'a`; `registry` is
/// `context`'s.
pub(crate) struct UserCtx<'a> {
    udata: NonNull<ffi::ib_udata>,
    context: NonNull<ffi::ib_ucontext>,
    registry: &'a Arc<Registry>,
    _call: PhantomData<&'a mut ffi::ib_udata>,
}

impl<'a> UserCtx<'a> {
    /// The process of a call.
    ///
    /// # Safety
    ///
    /// `udata` and `context` are those of a call that lasts for `'a`, and `registry` is the
    /// context's.
    pub(super) unsafe fn new(
        udata: NonNull<ffi::ib_udata>,
        context: NonNull<ffi::ib_ucontext>,
        registry: &'a Arc<Registry>,
    ) -> Self {
        // INVARIANT: by the requirement of this function.
        UserCtx {
            udata,
            context,
            registry,
            _call: PhantomData,
        }
    }

    /// Writes the response to the process.
    ///
    /// EINVAL if the process has too little room for it, EFAULT if its memory is not accessible.
    /// The rest of the room is zeroed.
    pub(crate) fn respond<T: IntoBytes + Immutable + ?Sized>(&self, answer: &T) -> Result {
        let bytes = answer.as_bytes();
        // SAFETY: by the type's invariant.
        if unsafe { self.udata.as_ref() }.outlen < bytes.len() {
            return Err(EINVAL);
        }
        // SAFETY: as above; the bytes are valid.
        to_result(unsafe {
            ffi::_ib_respond_udata(self.udata.as_ptr(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// The driver-private input.
    ///
    /// EINVAL if it is shorter, EOPNOTSUPP if it is longer with more than zeros behind, EFAULT if
    /// the process's memory is not accessible.
    pub(crate) fn input<T: FromBytes + IntoBytes>(&self) -> Result<T> {
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        let (at, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: by the type's invariant; `len` bytes are writable there, and any are valid.
        to_result(unsafe {
            ffi::_ib_copy_validate_udata_in(self.udata.as_ptr(), at.cast(), len, len)
        })?;
        Ok(value)
    }

    /// Writes `value` to an address in the process's memory. EFAULT if it is not writable.
    pub(crate) fn write<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result {
        let bytes = value.as_bytes();
        // CAST: both have 64 bits (see `umem`).
        UserSlice::new(UserPtr::from_addr(address as usize), bytes.len())
            .writer()
            .write_slice(bytes)
    }

    /// Makes `buf` mappable for the process. Returns the cookie that keeps it mappable, and the
    /// offset to map it at.
    ///
    /// EINVAL for a buffer that is not for processes, ENOMEM.
    pub(crate) fn publish(&self, buf: &Arc<SharedBuf>) -> Result<(Cookie, u64)> {
        // SAFETY: the context is valid during the call. `dealloc_ucontext` closes the registry, and
        // comes after all calls in it.
        unsafe { self.registry.insert(self.context.as_ptr(), buf) }
    }
}
