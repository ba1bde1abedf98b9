// SPDX-License-Identifier: GPL-2.0

//! A value that can be revoked: revocation refuses new accesses, waits for those in progress, and
//! drops the value.
//!
//! A memory region and the upcalls of a completion queue are revoked when they are destroyed. The
//! kernel crate's type of this name does not fit: its revocation waits for an RCU grace period,
//! which is too slow for a process that deregisters thousands of regions.

use crate::ffi;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};

/// Accesses are refused.
const REVOKED: u32 = 1 << 31;
/// The value has been dropped. Only ever set together with [`REVOKED`].
const DROPPED: u32 = 1 << 30;
/// The bits that count the accesses in progress.
const USERS: u32 = DROPPED - 1;

/// See the module's documentation.
///
/// # Invariants
///
/// The bits [`USERS`] of `state` are the number of live [`RevocableGuard`]s. `value` is initialised
/// until the context that set [`REVOKED`] has seen that number be zero.
pub(crate) struct Revocable<T> {
    state: Atomic<u32>,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: the value moves and is dropped with the wrapper.
unsafe impl<T: Send> Send for Revocable<T> {}
// SAFETY: accesses share `&T`; the revoker drops a `T` that another context may have made.
unsafe impl<T: Send + Sync> Sync for Revocable<T> {}

impl<T> Revocable<T> {
    /// Wraps `value`, accessible.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            state: Atomic::new(0),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Gives access to the value, unless it is revoked. Any context; never waits.
    ///
    /// All that the access does happens before the value is dropped.
    #[inline]
    pub(crate) fn try_access(&self) -> Option<RevocableGuard<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            // The count cannot overflow with fewer than 2^30 accesses in progress; to refuse more
            // is safe.
            if seen & REVOKED != 0 || seen == USERS {
                return None;
            }
            match self.state.cmpxchg(seen, seen + 1, Acquire) {
                // INVARIANT: the access is counted from now on.
                Ok(_) => {
                    return Some(RevocableGuard {
                        revocable: NonNull::from(self),
                        _revocable: PhantomData,
                    })
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Whether new accesses are still admitted. The result may be outdated at once. Any context.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Relaxed) & REVOKED == 0
    }

    /// Refuses new accesses, waits until none is in progress, and drops the value. Process context.
    ///
    /// May be called again, and concurrently: each call returns when the value is gone. Must not be
    /// called during an access, nor with a lock held that an access may wait for.
    pub(crate) fn revoke(&self) {
        let place = self.state.as_ptr();
        let mut seen = self.state.load(Relaxed);
        while seen & REVOKED == 0 {
            match self.state.cmpxchg(seen, seen | REVOKED, Full) {
                Ok(_) => {
                    self.wait(REVOKED);
                    // SAFETY: we set `REVOKED` and no access is in progress, so the value is ours
                    // alone, and it is initialised.
                    unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
                    self.state.xchg(REVOKED | DROPPED, Full);
                    wake(place);
                    return;
                }
                Err(now) => seen = now,
            }
        }
        self.wait(REVOKED | DROPPED);
    }

    /// Sleeps until the state is `state`.
    fn wait(&self, state: u32) {
        // SAFETY: the address is that of an aligned number which outlives the call; it is only
        // read.
        unsafe { ffi::oxe_wait_for_value(self.state.as_ptr(), state) };
    }
}

/// Wakes the contexts in [`Revocable::wait`] for the state at `place`. It uses the address only,
/// not the memory there, so the wrapper may be freed already. A full barrier must precede.
fn wake(place: *mut u32) {
    // SAFETY: nothing is read or written at the address.
    unsafe { ffi::oxe_wake_for_value(place) };
}

impl<T> Drop for Revocable<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() & REVOKED == 0 {
            // SAFETY: a value that was never revoked is initialised, and `&mut self` is the only
            // access.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

/// An access to a [`Revocable`]; ends when dropped (any context).
///
/// # Invariants
///
/// `revocable` is valid, and counts this access, until `drop` has taken the access from the count.
/// From then on a context that has waited for that may free the wrapper, while `drop` still runs:
/// so this is no reference.
#[must_use = "the access ends at once when the guard is unused"]
pub(crate) struct RevocableGuard<'a, T> {
    revocable: NonNull<Revocable<T>>,
    _revocable: PhantomData<&'a Revocable<T>>,
}

impl<T> Deref for RevocableGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this access is in progress, so the wrapper is valid by the type's invariant, and
        // the value initialised and not about to be dropped.
        unsafe { &*self.revocable.as_ref().value.get() }
    }
}

impl<T> Drop for RevocableGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the wrapper is valid by the type's invariant.
        let state = unsafe { &self.revocable.as_ref().state };
        let place = state.as_ptr();
        // Full: the revoker sees all that each access did, through the last one to end.
        if state.fetch_sub(1, Full) == REVOKED | 1 {
            wake(place);
        }
    }
}
