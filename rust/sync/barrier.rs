// SPDX-License-Identifier: GPL-2.0

//! A memory barrier.

use crate::ffi;

/// Earlier accesses to memory of this CPU are visible to all CPUs and devices before any later one
/// begins. So are those that this CPU has seen other CPUs make before a lock was handed over to it.
/// Any context.
pub(crate) fn full() {
    // SAFETY: no requirements.
    unsafe { ffi::oxe_memory_barrier() };
}
