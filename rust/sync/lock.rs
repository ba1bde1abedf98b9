// SPDX-License-Identifier: GPL-2.0

//! Spin locks that also disable bottom halves, or interrupts, on this CPU.
//!
//! [`SpinLockBh`] is for data shared by processes and softirqs, [`SpinLockIrq`] for data that
//! interrupt handlers touch, too. Both are ordinary [`Lock`]s with another back end, so guards,
//! pinning and lockdep classes work as for the kernel crate's own `SpinLock`:
//!
//! ```ignore
//! #[pin_data]
//! struct Queue {
//!     #[pin]
//!     state: SpinLockBh<State>,
//! }
//! pin_init!(Queue { state <- new_spinlock_bh!(State::new(), "Queue::state") })
//! ```

use crate::ffi::{self, lock_class_key, spinlock_t};
use kernel::ffi::{c_char, c_ulong};
use kernel::sync::lock::{Backend, Lock};

/// A spin lock that disables bottom halves on this CPU while it is held.
///
/// Contexts: process and softirq; never a hard interrupt, nor with interrupts disabled.
pub(crate) type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// A spin lock that saves and disables interrupts on this CPU while it is held, and restores them.
///
/// Contexts: any. Guards must be dropped in the reverse order of locking, or the restored interrupt
/// state is not the one that was saved.
pub(crate) type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

/// Makes an initialiser of a [`SpinLockBh`] with a lockdep class of its own, and an optional name.
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::lock::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_bh;

/// Makes an initialiser of a [`SpinLockIrq`] with a lockdep class of its own, and an optional name.
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::lock::SpinLockIrq::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_irq;

/// Asks lockdep, where it is built in, whether the lock is held.
///
/// # Safety
///
/// `ptr` points to an initialised lock.
unsafe fn assert_is_held(ptr: *mut spinlock_t) {
    // Without lockdep the call would do nothing, but would cost a function call for each lock
    // taken.
    #[cfg(CONFIG_LOCKDEP)]
    {
        use kernel::sync::lock::spinlock::SpinLockBackend;
        // SAFETY: the state of that back end is a `spinlock_t`, and it is initialised.
        unsafe { <SpinLockBackend as Backend>::assert_is_held(ptr) };
    }
    let _ = ptr;
}

/// Initialises a `spinlock_t`.
///
/// # Safety
///
/// As for [`Backend::init`].
unsafe fn init(ptr: *mut spinlock_t, name: *const c_char, key: *mut lock_class_key) {
    use kernel::sync::lock::spinlock::SpinLockBackend;
    // SAFETY: the caller's promise is what that back end asks for; its state is a `spinlock_t` too.
    unsafe { <SpinLockBackend as Backend>::init(ptr, name, key) }
}

/// The back end of [`SpinLockBh`].
pub(crate) struct SpinLockBhBackend;

// SAFETY: a `spinlock_t` gives mutual exclusion, and disabling bottom halves does not weaken it.
// `relock` is the default one, which locks the same way.
unsafe impl Backend for SpinLockBhBackend {
    type State = spinlock_t;
    type GuardState = ();

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
        // SAFETY: the caller fulfils the same requirements.
        unsafe { init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) {
        // SAFETY: the lock is initialised, as the caller promises.
        unsafe { ffi::oxe_spin_lock_bh(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<()> {
        // SAFETY: the lock is initialised, as the caller promises.
        unsafe { ffi::oxe_spin_trylock_bh(ptr) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _state: &()) {
        // SAFETY: the caller owns the lock.
        unsafe { ffi::oxe_spin_unlock_bh(ptr) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: the lock is initialised, as the caller promises.
        unsafe { assert_is_held(ptr) }
    }
}

/// The back end of [`SpinLockIrq`].
pub(crate) struct SpinLockIrqBackend;

// SAFETY: a `spinlock_t` gives mutual exclusion, and disabling interrupts does not weaken it.
// `relock` is the default one, which locks the same way.
unsafe impl Backend for SpinLockIrqBackend {
    type State = spinlock_t;
    /// The interrupt flags to restore.
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
        // SAFETY: the caller fulfils the same requirements.
        unsafe { init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> c_ulong {
        // SAFETY: the lock is initialised, as the caller promises.
        unsafe { ffi::oxe_spin_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<c_ulong> {
        let mut flags = 0;
        // SAFETY: the lock is initialised, as the caller promises, and `flags` is writable.
        unsafe { ffi::oxe_spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &c_ulong) {
        // SAFETY: the caller owns the lock, and `flags` is what taking it returned.
        unsafe { ffi::oxe_spin_unlock_irqrestore(ptr, *flags) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: the lock is initialised, as the caller promises.
        unsafe { assert_is_held(ptr) }
    }
}
