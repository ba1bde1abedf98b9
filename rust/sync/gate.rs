// SPDX-License-Identifier: GPL-2.0

//! A value that many contexts use while it is open, and that one context changes while it is shut.
//!
//! A fast-registered region and a memory window are opened and shut by work requests and packets,
//! that is in softirqs too. So the context that shuts the gate spins until the uses in progress
//! have ended. Each opening is a generation of its own: a reference to an earlier one does not fit
//! a later one.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// The bits that count the uses in progress.
const USERS: u64 = (1 << 30) - 1;
/// One context changes the value.
const BUSY: u64 = 1 << 30;
/// The value may be used. Never together with [`BUSY`].
const OPEN: u64 = 1 << 31;
/// The generation is above the other bits.
const SHIFT: u32 = 32;

/// The generation in a state.
#[inline]
const fn generation_of(state: u64) -> u32 {
    // CAST: 32 bits are left after the shift.
    (state >> SHIFT) as u32
}

/// See the module's documentation.
///
/// # Invariants
///
/// The bits [`USERS`] of `state` are the number of live [`Entered`]s; they only rise while [`OPEN`]
/// is set. The context that set [`BUSY`] has the only [`Alone`], and got it when [`USERS`] were 0.
///
/// Each guard counts until it is dropped, and one that is forgotten (`mem::forget`) counts for
/// ever: the gate stays as it is, and a context that shuts it spins. That is a deadlock, but no
/// access to the value that must not be: safe code may leak guards of locks to the same effect.
pub(crate) struct Gate<T> {
    state: Atomic<u64>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves and is dropped with the gate.
unsafe impl<T: Send> Send for Gate<T> {}
// SAFETY: users share `&T`; the one context that has `&mut T` may drop parts of it that another
// context made.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}

impl<T> Gate<T> {
    /// A gate that is shut.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            state: Atomic::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Lets the caller use the value, if the gate is open. Never waits.
    ///
    /// Any context in which bottom halves are disabled, until the use ends: a context that shuts
    /// the gate spins until then. The caller must not shut a gate meanwhile.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entered<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            if seen & OPEN == 0 || seen & USERS == USERS {
                return None;
            }
            match self.state.cmpxchg(seen, seen + 1, Acquire) {
                Ok(_) => return Some(Entered { gate: self }),
                Err(now) => seen = now,
            }
        }
    }

    /// As [`Gate::enter`], if the gate was not shut since this generation.
    #[inline]
    pub(crate) fn enter_again(&self, generation: u32) -> Option<Entered<'_, T>> {
        let entered = self.enter()?;
        (entered.generation() == generation).then_some(entered)
    }

    /// Whether the gate is open, and was not shut since this generation. The result may be outdated
    /// at once. Any context.
    #[inline]
    pub(crate) fn is_open(&self, generation: u32) -> bool {
        let seen = self.state.load(Relaxed);
        seen & OPEN != 0 && generation_of(seen) == generation
    }

    /// Shuts the gate, if it is open and was not shut since this generation. New uses are refused;
    /// those in progress have ended on return.
    ///
    /// Softirq, or process context with bottom halves disabled until the returned value is dropped.
    pub(crate) fn shut(&self, generation: u32) -> Option<Alone<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            if seen & OPEN == 0 || generation_of(seen) != generation {
                return None;
            }
            match self.state.cmpxchg(seen, (seen & !OPEN) | BUSY, Full) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        while self.state.load(Acquire) & USERS != 0 {
            core::hint::spin_loop();
        }
        // INVARIANT: we have set the bit, and there is no user any more.
        Some(Alone { gate: self })
    }

    /// Lets the caller change the value, if the gate is shut and no other context changes it. Never
    /// waits.
    ///
    /// Any context. If there may be a [`Gate::seize`], contexts are as for [`Gate::shut`].
    pub(crate) fn change(&self) -> Option<Alone<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            if seen & (OPEN | BUSY) != 0 {
                return None;
            }
            match self.state.cmpxchg(seen, seen | BUSY, Acquire) {
                // INVARIANT: we have set the bit. No use has begun since the gate was shut, and
                // the context that shut it has waited for those in progress.
                Ok(_) => return Some(Alone { gate: self }),
                Err(now) => seen = now,
            }
        }
    }

    /// Shuts the gate if it is open, and lets the caller change the value: waits for other contexts
    /// that change it, too.
    ///
    /// Contexts: as for [`Gate::shut`]; not within a change of this gate.
    pub(crate) fn seize(&self) -> Alone<'_, T> {
        loop {
            let generation = generation_of(self.state.load(Relaxed));
            if let Some(alone) = self.shut(generation).or_else(|| self.change()) {
                return alone;
            }
            core::hint::spin_loop();
        }
    }
}

/// A use in progress; ends when dropped.
#[must_use = "the use ends at once when the guard is unused"]
pub(crate) struct Entered<'a, T> {
    gate: &'a Gate<T>,
}

impl<T> Entered<'_, T> {
    /// The generation that is open.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        generation_of(self.gate.state.load(Relaxed))
    }
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this use is in progress, so no context has the value for itself.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: the context that shuts the gate sees all that each use did.
        self.gate.state.fetch_sub(1, Release);
    }
}

/// The right to change the value. The gate stays shut when it is dropped.
pub(crate) struct Alone<'a, T> {
    gate: &'a Gate<T>,
}

impl<T> Alone<'_, T> {
    /// Opens the gate: a new generation begins.
    pub(crate) fn open(self) {
        let generation = (self.gate.state.load(Relaxed) >> SHIFT).wrapping_add(1) << SHIFT;
        // No other context changes the state while BUSY is set and OPEN is not. INVARIANT: the
        // guard's drop, which would clear BUSY, does not run.
        self.gate.state.store(generation | OPEN, Release);
        core::mem::forget(self);
    }
}

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by the invariants of the gate we alone have access.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> DerefMut for Alone<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Drop for Alone<'_, T> {
    fn drop(&mut self) {
        self.gate.state.fetch_sub(BUSY, Release);
    }
}
