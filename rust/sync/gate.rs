// SPDX-License-Identifier: GPL-2.0

//! A gate around a value: admits users until it closes, waits until the last one has left, and then
//! drops the value.
//!
//! It is what giving up a memory region or a completion queue needs: whoever touches the memory enters
//! first, and the one who closes the gate gives the memory back, in a context that may sleep.

use crate::ffi;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};

/// Nobody is admitted any more.
const CLOSED: u32 = 1 << 31;
/// The value has been dropped. Only ever set together with [`CLOSED`].
const GONE: u32 = 1 << 30;
/// The bits that count the users inside.
const USERS: u32 = GONE - 1;

/// See the module's documentation.
///
/// # Invariants
///
/// The bits [`USERS`] of `state` are the number of live [`GateGuard`]s. `value` is initialised until the
/// one who set [`CLOSED`] has seen that number be zero.
pub(crate) struct Gate<T> {
    state: Atomic<u32>,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: the value moves and is dropped with the gate.
unsafe impl<T: Send> Send for Gate<T> {}
// SAFETY: users share `&T`; the one who closes drops a `T` that another context may have made.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}

impl<T> Gate<T> {
    /// An open gate around `value`.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            state: Atomic::new(0),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Enters, unless the gate is closed. Any context; never waits.
    ///
    /// What a user did inside happens before the value is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> Option<GateGuard<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            // The second test cannot fail with fewer than 2^30 users; to refuse is the safe answer.
            if seen & CLOSED != 0 || seen == USERS {
                return None;
            }
            match self.state.cmpxchg(seen, seen + 1, Acquire) {
                Ok(_) => return Some(GateGuard { gate: self }),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether users are still admitted, a moment ago. Any context.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Relaxed) & CLOSED == 0
    }

    /// Refuses new users, waits until nobody is inside, and drops the value. Process context.
    ///
    /// May be called again, and concurrently: each call returns when the value is gone. Must not be
    /// called from inside, nor with a lock held that a user may wait for.
    pub(crate) fn close(&self) {
        let mut seen = self.state.load(Relaxed);
        while seen & CLOSED == 0 {
            match self.state.cmpxchg(seen, seen | CLOSED, Full) {
                Ok(_) => {
                    self.wait(CLOSED);
                    // SAFETY: we set `CLOSED` and nobody is inside, so the value is ours alone, and
                    // it is initialised.
                    unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
                    self.state.xchg(CLOSED | GONE, Full);
                    self.wake();
                    return;
                }
                Err(now) => seen = now,
            }
        }
        self.wait(CLOSED | GONE);
    }

    /// Sleeps until the state is `state`.
    fn wait(&self, state: u32) {
        // SAFETY: the address is that of an aligned number which outlives the call; it is only read.
        unsafe { ffi::oxe_wait_for_value(self.state.as_ptr(), state) };
    }

    /// Wakes those in [`Gate::wait`]. Touches an address and not what is there, so the gate may be freed
    /// meanwhile. A full barrier must precede.
    fn wake(&self) {
        // SAFETY: as said.
        unsafe { ffi::oxe_wake_for_value(self.state.as_ptr()) };
    }
}

impl<T> Drop for Gate<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() & CLOSED == 0 {
            // SAFETY: a gate that was never closed has its value, and nobody else has the gate.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

/// Proof of being inside a [`Gate`]; leaves when dropped (any context).
#[must_use = "the gate is left at once when the guard is unused"]
pub(crate) struct GateGuard<'a, T> {
    gate: &'a Gate<T>,
}

impl<T> Deref for GateGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: somebody is inside, so the value is initialised and not about to be dropped.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> Drop for GateGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let state = self.gate.state.as_ptr();
        // Full: what each user did inside reaches the closer through the last one to leave.
        if self.gate.state.fetch_sub(1, Full) == CLOSED | 1 {
            // The closer may free the gate from now on; only the address is used.
            // SAFETY: nothing is read or written there.
            unsafe { ffi::oxe_wake_for_value(state) };
        }
    }
}
