// SPDX-License-Identifier: GPL-2.0

//! Errors that the kernel crate lacks.

/// EOPNOTSUPP, which the kernel crate has no name for.
pub(crate) fn unsupported() -> kernel::error::Error {
    kernel::error::Error::from_errno(-(crate::ffi::EOPNOTSUPP as kernel::ffi::c_int))
}
