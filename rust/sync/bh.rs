// SPDX-License-Identifier: GPL-2.0

//! Bottom halves disabled on this CPU for longer than a lock is held.

use crate::ffi;
use kernel::types::NotThreadSafe;

/// Bottom halves are disabled on this CPU while a guard lives. Nests. Process and softirq context,
/// with interrupts enabled.
#[must_use = "bottom halves are enabled again at once when the guard is unused"]
pub(crate) struct BhGuard(NotThreadSafe);

impl BhGuard {
    /// Disables bottom halves.
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: no requirements; the drop below undoes it, on the same CPU.
        unsafe { ffi::oxe_bh_disable() };
        Self(NotThreadSafe)
    }
}

/// Whether this is a hard interrupt, or interrupts are disabled: a [`BhGuard`] is not allowed
/// there. Any context.
#[inline]
pub(crate) fn irqs_disabled() -> bool {
    // SAFETY: no requirements.
    unsafe { ffi::oxe_irqs_disabled() }
}

/// Gives up the CPU if another task waits for it. Returns whether this process has a fatal signal
/// pending. Process context, with nothing held that forbids sleeping.
pub(crate) fn cond_resched_killable() -> bool {
    // SAFETY: the caller may sleep.
    unsafe { ffi::oxe_cond_resched_killable() }
}

impl Default for BhGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BhGuard {
    /// Enables bottom halves, and runs those that are pending.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: they were disabled by `new`.
        unsafe { ffi::oxe_bh_enable() };
    }
}
