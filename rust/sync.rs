// SPDX-License-Identifier: GPL-2.0

//! Safe synchronisation primitives that the kernel crate lacks.
//!
//! * [`lock`]: spin locks that disable bottom halves or interrupts;
//! * [`table`]: identifier to object, read under RCU;
//! * [`gate`]: a value that softirqs open, use and shut;
//! * [`revocable`]: a value that can be revoked: it is dropped when the last access has ended;
//! * [`bh`]: bottom halves disabled on this CPU; [`barrier`]: a memory barrier;
//! * [`timer`]: one-shot timers that keep their object alive while armed;
//! * [`work`]: the module's own work queues; [`budget`]: how much of them a user may take;
//! * [`memory`]: allocation flags, and the memory cgroup that is charged; [`quota`]: a limit on the
//!   number of objects; [`user`]: who is accounted for them;
//! * [`registry`]: values that are found by a number, and counted.
//!
//! This module knows no protocol. It contains `unsafe` code, which must not leak out: every public
//! item is safe to call, in the contexts that its documentation names.

pub(crate) mod barrier;
pub(crate) mod bh;
pub(crate) mod budget;
pub(crate) mod gate;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod quota;
pub(crate) mod registry;
pub(crate) mod revocable;
pub(crate) mod table;
pub(crate) mod timer;
pub(crate) mod user;
pub(crate) mod work;

/// Whether a line about what a process did may go to the kernel log: ten in five seconds may. Any
/// context.
pub(crate) fn may_log() -> bool {
    // SAFETY: no requirements.
    unsafe { crate::ffi::oxe_may_log() }
}

/// An unpredictable random number. Any context.
pub(crate) fn random_u32() -> u32 {
    // SAFETY: no requirements.
    unsafe { crate::ffi::oxe_random_u32() }
}
