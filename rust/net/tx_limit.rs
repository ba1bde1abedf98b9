// SPDX-License-Identifier: GPL-2.0

//! The bytes that one sender has in flight in the network stack of this machine: in queues, and
//! with network cards. A packet gives its bytes back when it is freed. Packets hold a reference
//! neither to the sender nor to the module.
//!
//! The limit adapts, as those of byte queue limits (BQL) and TCP small queues (TSQ) do: where bytes
//! come back slowly it shrinks, down to one super-packet, so that no queue builds up.

use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The limit in bytes of packets with their buffers (`truesize`): initial, minimum (one
/// super-packet) and maximum.
const FIRST_LIMIT: u32 = 256 << 10;
const MIN_LIMIT: u32 = 64 << 10;
const MAX_LIMIT: u32 = 1024 << 10;

/// A longer wait, in nanoseconds, means that a queue is building up.
const LONG_WAIT: u64 = 2_000_000;

/// A shorter wait means that the queue runs empty.
const SHORT_WAIT: u64 = 250_000;

/// The limit after a wait of `waited` nanoseconds for half of `limit`. Any context.
extern "C" fn adapt(limit: u32, waited: u64) -> u32 {
    if waited > LONG_WAIT {
        (limit / 2).max(MIN_LIMIT)
    } else if waited < SHORT_WAIT {
        limit.saturating_mul(2).min(MAX_LIMIT)
    } else {
        limit
    }
}

/// An object that waits until it may send.
pub(crate) trait TxLimitHandler: Send + Sync + Sized + 'static {
    /// Called when half of the limit is free again. Any context, hard irqs included: to be short,
    /// it queues work.
    fn below_limit(this: Arc<Self>);
}

/// A sender's limit: see the module's documentation.
///
/// # Invariants
///
/// `raw` is owned. While it waits, its `owner` is an address from `Arc::into_raw` of a `T`, whose
/// reference belongs to the wait.
pub(crate) struct TxLimit<T: TxLimitHandler> {
    raw: NonNull<ffi::oxe_tx_limit>,
    _owner: PhantomData<fn(T)>,
}

// SAFETY: the C functions may be called by any thread.
unsafe impl<T: TxLimitHandler> Send for TxLimit<T> {}
// SAFETY: as above; they have a lock of their own.
unsafe impl<T: TxLimitHandler> Sync for TxLimit<T> {}

impl<T: TxLimitHandler> TxLimit<T> {
    /// A limit with nothing in flight. Process context. ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `wake` may be called with what `wait` gives.
        let raw = unsafe { ffi::oxe_tx_limit_new(Some(Self::wake), Some(adapt), FIRST_LIMIT) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        Ok(TxLimit {
            raw,
            _owner: PhantomData,
        })
    }

    /// Whether less than the limit is in flight. Any context.
    #[inline]
    pub(crate) fn is_below(&self) -> bool {
        // SAFETY: by the type's invariants.
        unsafe { ffi::oxe_tx_limit_below(self.raw.as_ptr()) }
    }

    /// Whether `owner` has to wait. Then [`TxLimitHandler::below_limit`] is called once it need
    /// not. Any context.
    #[cold]
    pub(crate) fn wait(&self, owner: &Arc<T>) -> bool {
        let owner = Arc::into_raw(owner.clone());
        // SAFETY: by the type's invariants. The reference is passed along.
        let state = unsafe { ffi::oxe_tx_limit_wait(self.raw.as_ptr(), owner.cast_mut().cast()) };
        if state != ffi::oxe_tx_limit_wait_OXE_TX_LIMIT_WAITS {
            // SAFETY: the reference was not taken.
            drop(unsafe { Arc::from_raw(owner) });
        }
        state != ffi::oxe_tx_limit_wait_OXE_TX_LIMIT_BELOW
    }

    /// Ends the wait, if there is one. Any context.
    pub(crate) fn cancel(&self) {
        // SAFETY: by the type's invariants.
        let owner = unsafe { ffi::oxe_tx_limit_cancel(self.raw.as_ptr()) };
        if !owner.is_null() {
            // SAFETY: the reference was the wait's, which is over.
            drop(unsafe { Arc::from_raw(owner.cast::<T>().cast_const()) });
        }
    }

    /// The address, for the helpers.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut ffi::oxe_tx_limit {
        self.raw.as_ptr()
    }

    /// # Safety
    ///
    /// Called by the helper with the owner of a wait, which is over.
    unsafe extern "C" fn wake(owner: *mut core::ffi::c_void) {
        // SAFETY: the reference was the wait's.
        T::below_limit(unsafe { Arc::from_raw(owner.cast::<T>().cast_const()) });
    }
}

impl<T: TxLimitHandler> Drop for TxLimit<T> {
    fn drop(&mut self) {
        // Usually there is no wait: it would hold a reference to its owner, and so to this limit.
        // But an owner may wait for the limit of another one.
        self.cancel();
        // SAFETY: it is ours, and not used again.
        unsafe { ffi::oxe_tx_limit_free(self.raw.as_ptr()) };
    }
}
