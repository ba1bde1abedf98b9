// SPDX-License-Identifier: GPL-2.0

//! Errors that the kernel crate lacks.

use crate::ffi;
use kernel::error::Error;
use kernel::ffi::c_int;

/// EOPNOTSUPP, which the kernel crate has no name for.
pub(crate) fn unsupported() -> Error {
    // CAST: numbers of errors are below 4,096.
    Error::from_errno(-(ffi::EOPNOTSUPP as c_int))
}

/// EADDRINUSE, which the kernel crate of 7.2 has no name for.
pub(crate) fn address_in_use() -> Error {
    // CAST: as above.
    Error::from_errno(-(ffi::EADDRINUSE as c_int))
}
