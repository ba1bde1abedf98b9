// SPDX-License-Identifier: GPL-2.0

//! All differences in Rust between the kernel series that the source is built for. Kbuild sets
//! `kernel_7_3` for 7.3 and later. Differences in C are in the helpers.

use core::borrow::Borrow;
use kernel::prelude::*;

/// The value that a timer's callback returns so as not to arm the timer again.
#[cfg(kernel_7_3)]
pub(crate) const NO_RESTART: super::hrtimer_restart = super::hrtimer_restart::HRTIMER_NORESTART;
#[cfg(not(kernel_7_3))]
pub(crate) const NO_RESTART: super::hrtimer_restart = super::hrtimer_restart_HRTIMER_NORESTART;

/// A count as `struct ib_device_attr` has it: an unsigned one since 7.3, a C `int` before, to which
/// it is clamped.
#[cfg(kernel_7_3)]
pub(crate) fn attr_count(n: u32) -> u32 {
    n
}
#[cfg(not(kernel_7_3))]
pub(crate) fn attr_count(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A module parameter's value, from the result of `value()`: the value since 7.3, a reference
/// before.
pub(crate) fn parameter<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}

/// The number of the controller that the module parameter `congestion_control` names.
pub(crate) fn congestion_control() -> u32 {
    // SAFETY: it only reads a number, which is set before the module's code runs.
    unsafe { super::oxe_congestion_control() }
}

/// Runs a pinned initialiser on raw memory.
///
/// # Safety
///
/// `slot` is valid for writes and properly aligned; what is there after success stays there,
/// pinned, and nothing is there after an error.
pub(crate) unsafe fn pinned_init<T>(init: impl PinInit<T, Error>, slot: *mut T) -> Result {
    // SAFETY: the initialiser asks for what this function asks for.
    #[cfg(kernel_7_3)]
    unsafe {
        init.__init(slot)
    }
    // SAFETY: as above.
    #[cfg(not(kernel_7_3))]
    unsafe {
        init.__pinned_init(slot)
    }
}
