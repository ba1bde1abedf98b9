// SPDX-License-Identifier: GPL-2.0

//! The user ABI of the driver, `rust/device/uabi`, as a crate of its own, for its tests.

#![cfg_attr(not(test), no_std)]
// The driver uses it; here are its tests.
#![expect(dead_code)]

/// The driver compares with the kernel's headers here (`rust/ffi/rxe_abi.rs`).
macro_rules! same_layout {
    ($($list:tt)*) => {};
}

/// As `same_layout!`.
macro_rules! same_numbers {
    ($($list:tt)*) => {};
}

// With the path on a module around it, `uabi.rs` finds its files as it does in the driver.
#[path = "../../../rust/device"]
mod device {
    pub(crate) mod uabi;
}
