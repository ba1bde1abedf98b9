// SPDX-License-Identifier: GPL-2.0

//! Safe synchronisation primitives that the kernel crate lacks.
//!
//! * [`lock`]: spin locks that disable bottom halves or interrupts;
//! * [`table`]: identifier to object, read under RCU;
//! * [`revocable`]: a value that is dropped once no one accesses it, and accessed no more then;
//! * [`bh`]: bottom halves kept off this CPU;
//! * [`timer`]: one-shot timers that keep their object alive while armed;
//! * [`work`]: the module's own work queues;
//! * [`memory`]: allocation flags, and who pays; [`quota`]: how many of something there may be.
//!
//! Nothing in here knows a protocol. `unsafe` is at home here and must not leak out: every public
//! item is safe to call, in the contexts its documentation names.

pub(crate) mod bh;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod quota;
pub(crate) mod revocable;
pub(crate) mod table;
pub(crate) mod timer;
pub(crate) mod work;

/// A random number, unpredictable to others. Any context.
pub(crate) fn random_u32() -> u32 {
    // SAFETY: no requirements.
    unsafe { crate::ffi::oxe_random_u32() }
}
