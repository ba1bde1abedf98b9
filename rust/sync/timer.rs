// SPDX-License-Identifier: GPL-2.0

//! One-shot timers with nanosecond deadlines, embedded in reference-counted objects.
//!
//! An armed timer holds a reference to its object, which the callback gets; the callback runs in a
//! softirq. A timer cannot be disarmed in a context that cannot wait, and need not be: a timer that
//! is no longer wanted fires, and its handler checks what is due. For the same reason
//! [`Timer::arm_at`] only moves a deadline to an earlier time: re-arming for each packet costs one
//! load.
//!
//! ```ignore
//! #[pin_data]
//! struct Peer {
//!     #[pin]
//!     retry: Timer<Peer>,
//! }
//! impl_has_timer! { impl HasTimer<0> for Peer { self.retry } }
//! impl TimerHandler for Peer {
//!     fn expired(this: Arc<Self>) { ... }
//! }
//! peer.retry.arm_at(peer.as_arc_borrow(), now_ns() + 1_000_000);
//! ```

use super::lock::{new_spinlock_irq, SpinLockIrq};
use crate::ffi::{self, hrtimer, hrtimer_restart};
use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, ArcBorrow};
use kernel::types::Opaque;

/// CLOCK_MONOTONIC in nanoseconds. Any context.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: no requirements.
    let now = unsafe { ffi::ktime_get() };
    // CAST: the clock starts at zero at boot and lasts for 292 years, so it is not negative.
    now as u64
}

/// The expiry handler of an object's timer number `ID`.
pub(crate) trait TimerHandler<const ID: u64 = 0>: Sized {
    /// Called when the deadline has passed, or one that has been moved since: spurious calls are
    /// allowed, so the handler decides by the clock. Softirq context, one softirq for all timers
    /// that expire together: to be short, the handler queues work. It may arm the timer again; it
    /// must not cancel it.
    fn expired(this: Arc<Self>);
}

/// The place of timer number `ID` in an object. To be implemented by [`impl_has_timer!`].
///
/// # Safety
///
/// `OFFSET` is the offset of a field of the type `Timer<Self, ID>` in `Self`.
pub(crate) unsafe trait HasTimer<const ID: u64 = 0>:
    TimerHandler<ID> + Send + Sync + 'static
{
    /// The offset in bytes.
    const OFFSET: usize;
}

/// Implements [`HasTimer`]: `impl_has_timer! { impl HasTimer<0> for Object { self.field } }`.
macro_rules! impl_has_timer {
    ($(impl HasTimer<$id:literal> for $object:ty { self.$field:ident })*) => {$(
        // SAFETY: the offset is that of the field, whose type the closure checks: unlike a
        // reference, a raw pointer to a box is not taken for one to the contents.
        unsafe impl $crate::sync::timer::HasTimer<$id> for $object {
            const OFFSET: usize = {
                type Field = $crate::sync::timer::Timer<$object, $id>;
                let _: unsafe fn(*const $object) -> *const Field =
                    // SAFETY: it is never called.
                    |object| unsafe { &raw const (*object).$field };
                ::core::mem::offset_of!($object, $field)
            };
        }
    )*};
}
pub(crate) use impl_has_timer;

/// The number of the clock. CAST: it is 1.
const CLOCK: i32 = ffi::CLOCK_MONOTONIC as i32;

/// No deadline is set.
const IDLE: i64 = i64::MAX;

/// A timer, [`struct hrtimer`]; see the module's documentation.
///
/// [`struct hrtimer`]: srctree/include/linux/hrtimer_types.h
///
/// # Invariants
///
/// `timer` is initialised. While `state.referenced` is set, the timer owns a reference to the
/// object it is embedded in, of which `Arc::into_raw` gave the address and its provenance was
/// exposed. Only then may the C timer be queued, or its callback be about to take the lock of
/// `state`.
#[repr(C)]
#[pin_data]
pub(crate) struct Timer<T, const ID: u64 = 0> {
    #[pin]
    timer: Opaque<hrtimer>,
    /// The deadline that the C timer has, or [`IDLE`]. Written under `state`'s lock, read without.
    deadline: Atomic<i64>,
    #[pin]
    state: SpinLockIrq<State>,
    _object: PhantomData<fn(T)>,
}

struct State {
    referenced: bool,
    /// How many calls of [`Timer::cancel`] are in progress: the timer is not armed meanwhile.
    cancelling: u32,
}

// SAFETY: the C timer serialises its own operations and does not depend on the thread.
unsafe impl<T, const ID: u64> Send for Timer<T, ID> {}
// SAFETY: as above; what is ours is atomic, or behind a lock.
unsafe impl<T, const ID: u64> Sync for Timer<T, ID> {}

impl<T: HasTimer<ID>, const ID: u64> Timer<T, ID> {
    /// An initialiser of an idle timer.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: the place is valid for writes.
            timer <- Opaque::ffi_init(|timer| unsafe {
                ffi::hrtimer_setup(
                    timer,
                    Some(Self::callback),
                    CLOCK,
                    ffi::hrtimer_mode_HRTIMER_MODE_ABS_SOFT,
                )
            }),
            deadline: Atomic::new(IDLE),
            state <- new_spinlock_irq!(State { referenced: false, cancelling: 0 }, "Timer::state"),
            _object: PhantomData,
        })
    }

    /// Arms the timer of `object` for `when` (CLOCK_MONOTONIC, nanoseconds) unless it is armed for
    /// an earlier time already. Any context, the timer's own handler included.
    ///
    /// To lose no wake-up, call it with the lock held that the handler takes to check what is due.
    /// Does nothing while [`Timer::cancel`] is in progress.
    #[inline]
    pub(crate) fn arm_at(&self, object: ArcBorrow<'_, T>, when: u64) {
        let when = i64::try_from(when).unwrap_or(IDLE);
        if self.deadline.load(Relaxed) > when {
            Self::start(object, when, false);
        }
    }

    /// The timer of `object`, found by its offset. It is the timer that belongs to the reference;
    /// the receiver of a public method need not be that timer.
    fn of(object: &T) -> &Self {
        // SAFETY: `HasTimer` promises that a `Self` is there.
        unsafe { &*(&raw const *object).byte_add(T::OFFSET).cast::<Self>() }
    }

    fn start(object: ArcBorrow<'_, T>, when: i64, later: bool) {
        let this = Self::of(&object);
        let mut state = this.state.lock();
        if state.cancelling != 0 || (!later && this.deadline.load(Relaxed) <= when) {
            return;
        }
        if !state.referenced {
            state.referenced = true;
            // INVARIANT: the reference is the timer's now; `take_reference` gets it back.
            let _ = Arc::into_raw(Arc::from(object)).expose_provenance();
        }
        this.deadline.store(when, Relaxed);
        // The callback gets this pointer, so it is one to all of `Self`, not to its first field.
        let timer = core::ptr::from_ref(this).cast_mut().cast::<hrtimer>();
        // SAFETY: the timer is initialised, and its object lives until the callback or `cancel`
        // took the reference, neither of which leaves it queued.
        unsafe {
            ffi::hrtimer_start_range_ns(timer, when, 0, ffi::hrtimer_mode_HRTIMER_MODE_ABS_SOFT)
        };
    }

    /// Disarms the timer and waits for its handler to return. Process context, never from the
    /// handler, nor with a lock held that the handler takes. The timer can be armed again
    /// afterwards; to stop it for good is up to the code that arms it.
    pub(crate) fn cancel(&self) {
        self.state.lock().cancelling += 1;
        // SAFETY: the timer is initialised. It cannot be started now (see `cancelling`), so it is
        // idle when this returns.
        unsafe { ffi::hrtimer_cancel(self.timer.get()) };
        let mut state = self.state.lock();
        state.cancelling -= 1;
        self.deadline.store(IDLE, Relaxed);
        let mine = state.referenced;
        state.referenced = false;
        drop(state);
        if mine {
            // SAFETY: `referenced` was set, so the timer owned a reference. It is cleared, so
            // nothing else takes that one.
            drop(unsafe { self.take_reference() });
        }
    }

    /// Takes the timer's reference to its object.
    ///
    /// # Safety
    ///
    /// The timer owns one, and the caller made sure that it is taken once. `self` is embedded in an
    /// object inside an [`Arc`], as each timer is that was ever started.
    unsafe fn take_reference(&self) -> Arc<T> {
        // `self` is a reference to the timer alone. The pointer to the whole object, and to the
        // count in front of it, is the one that `start` has exposed.
        let object = core::ptr::from_ref(self).addr().wrapping_sub(T::OFFSET);
        // SAFETY: by `HasTimer` the object begins `OFFSET` bytes before its timer, so this is what
        // `start` got from `Arc::into_raw`.
        unsafe { Arc::from_raw(core::ptr::with_exposed_provenance(object)) }
    }

    /// The C callback. Softirq.
    ///
    /// # Safety
    ///
    /// Called by the timer code for a timer that [`Timer::start`] queued.
    unsafe extern "C" fn callback(timer: *mut hrtimer) -> hrtimer_restart {
        // SAFETY: `timer` is the first field of a `repr(C)` `Self`, whose object the timer's
        // reference keeps alive: `cancel` waits for us before it takes that.
        let this = unsafe { &*timer.cast::<Self>() };
        let mut state = this.state.lock();
        // SAFETY: the timer is initialised.
        let object = if unsafe { ffi::oxe_hrtimer_is_queued(timer) } {
            // Restarted between its expiry and our lock. The reference stays with the new deadline,
            // and since the object lives, there is another one for us.
            // SAFETY: the count is not zero (the timer's own reference), and the copy is forgotten.
            let object = core::mem::ManuallyDrop::new(unsafe { this.take_reference() });
            Arc::clone(&object)
        } else {
            state.referenced = false;
            this.deadline.store(IDLE, Relaxed);
            // SAFETY: a timer that fired was started, so it owned a reference; the flag is cleared.
            unsafe { this.take_reference() }
        };
        drop(state);
        T::expired(object);
        ffi::compat::NO_RESTART
    }
}
