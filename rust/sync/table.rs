// SPDX-License-Identifier: GPL-2.0

//! A table from 32-bit identifiers to reference-counted objects, read under RCU.
//!
//! Reading takes no lock: the QP number and the key of every packet are looked up. The table holds
//! one reference per object, and gives it up a grace period after removal, so a reader always finds
//! either nothing or an object that lives.
//!
//! The last reference to an object may thus be dropped in a softirq (an RCU callback, or a reader
//! that cloned one): `T`'s destructor must not sleep. State that must be torn down in process
//! context, such as pinned memory, is torn down by its owner beforehand, behind a
//! [`super::revocable::Revocable`].

use super::memory::GFP_CHARGED;
use super::quota::{Owner, Quota};
use crate::ffi::{self, callback_head, xarray};
use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::with_exposed_provenance;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{rcu, Arc, ArcBorrow};
use kernel::types::Opaque;

/// See the module's documentation. To be dropped in process context. It is a [`struct xarray`].
///
/// [`struct xarray`]: srctree/include/linux/xarray.h
///
/// # Invariants
///
/// Each pointer in `array` came from `KBox::into_raw` of an [`Entry<T>`], which is freed no earlier
/// than a grace period after its removal from `array`.
#[pin_data(PinnedDrop)]
pub(crate) struct Table<T: Send + Sync + 'static> {
    #[pin]
    array: Opaque<xarray>,
    min: u32,
    max: u32,
    /// Where the search for a free identifier goes on. A hint: concurrent searches may start at the
    /// same place, and find different identifiers all the same.
    next: Atomic<u32>,
    quota: Quota,
    _entries: PhantomData<Entry<T>>,
}

/// An entry, to which the array points.
///
/// # Invariants
///
/// `object` is zero while the identifier is only reserved; then it is, for good, an address from
/// `Arc::into_raw`, exposed, whose reference the entry owns.
#[repr(C)]
struct Entry<T> {
    rcu: Opaque<callback_head>,
    object: Atomic<usize>,
    owner: Owner,
    _object: PhantomData<Arc<T>>,
}

impl<T> Entry<T> {
    fn new(owner: &Owner) -> Self {
        Self {
            rcu: Opaque::uninit(),
            object: Atomic::new(0),
            owner: owner.clone(),
            _object: PhantomData,
        }
    }

    /// The object, if it has been published.
    #[inline]
    fn object(&self) -> Option<ArcBorrow<'_, T>> {
        let object = with_exposed_provenance::<T>(self.object.load(Acquire));
        // SAFETY: by the invariants a reference to it is owned here, and not given up before the
        // entry.
        (!object.is_null()).then(|| unsafe { ArcBorrow::from_raw(object) })
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let object = with_exposed_provenance::<T>(*self.object.get_mut());
        if !object.is_null() {
            // SAFETY: by the invariants it came from `Arc::into_raw`, and the reference is ours.
            drop(unsafe { Arc::from_raw(object) });
        }
    }
}

// SAFETY: the table owns references to `T`, which is `Send` and `Sync`.
unsafe impl<T: Send + Sync> Send for Table<T> {}
// SAFETY: writers are serialised by the array's own lock, readers are under RCU, and `T` is `Sync`.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T: Send + Sync + 'static> Table<T> {
    /// An initialiser of an empty table. It chooses identifiers in `ids` cyclically, from a random
    /// one on, so that an identifier is not reused soon after it is given up. `quota` limits the
    /// number of objects.
    pub(crate) fn new(ids: RangeInclusive<u32>, quota: Quota) -> impl PinInit<Self> {
        let (min, max) = ids.into_inner();
        let next = random(min, max);
        pin_init!(Self {
            // SAFETY: the place is valid for writes.
            array <- Opaque::ffi_init(|array| unsafe { ffi::oxe_xa_init(array) }),
            min,
            max,
            next: Atomic::new(next),
            quota,
            _entries: PhantomData,
        })
    }

    /// Calls `f` with the object at `id`, if there is one. Any context.
    ///
    /// `f` runs in an RCU read-side section: it must not sleep. The object outlives the call of
    /// `f`.
    #[inline]
    pub(crate) fn with<R>(&self, id: u32, f: impl FnOnce(ArcBorrow<'_, T>) -> R) -> Option<R> {
        let reading = rcu::read_lock();
        Some(f(self.entry(id, &reading)?.object()?))
    }

    /// A reference to the object at `id`, if there is one. Any context.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<Arc<T>> {
        self.with(id, |object| Arc::from(object))
    }

    /// The object with the lowest identifier from `id` on, and that identifier. Any context.
    pub(crate) fn next(&self, id: u32) -> Option<(u32, Arc<T>)> {
        let _reading = rcu::read_lock();
        let (mut at, mut after) = (id as usize, false);
        loop {
            // SAFETY: the array is initialised and `at` is writable.
            let entry = unsafe { ffi::oxe_xa_next(self.array.get(), &mut at, after) };
            // SAFETY: by the type's invariants it is null or an entry, which is not freed while we
            // read.
            let entry = unsafe { entry.cast::<Entry<T>>().as_ref() }?;
            if let Some(object) = entry.object() {
                // CAST: entries have identifiers of 32 bits, by which they were inserted.
                return Some((at as u32, Arc::from(object)));
            }
            after = true;
        }
    }

    #[inline]
    fn entry<'a>(&'a self, id: u32, _reading: &'a rcu::Guard) -> Option<&'a Entry<T>> {
        // SAFETY: the array is initialised.
        let entry = unsafe { ffi::xa_load(self.array.get(), id as usize) };
        // SAFETY: by the type's invariants it is null or an entry, which is not freed while we
        // read.
        unsafe { entry.cast::<Entry<T>>().as_ref() }
    }

    /// Calls `f` with each object, in the order of the identifiers. It sees all objects that are
    /// there during the whole call, and perhaps others. Process context; `f` may sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<T>)) {
        let mut from = Some(0);
        while let Some((id, object)) = from.and_then(|id| self.next(id)) {
            f(&object);
            from = id.checked_add(1);
            let _ = super::bh::cond_resched_killable();
        }
    }

    /// Reserves a free identifier, which reads as absent until [`Table::publish`];
    /// [`Table::cancel`] gives it up again. Process context. `ENOMEM`, also if the quota of the
    /// owner is used up; `EBUSY` if all identifiers are taken.
    pub(crate) fn reserve(&self, owner: &Owner) -> Result<u32> {
        self.reserve_with(owner, false)
    }

    /// As [`Table::reserve`], for a kernel user in any context.
    pub(crate) fn reserve_atomic(&self) -> Result<u32> {
        self.reserve_with(&Owner::KERNEL, true)
    }

    /// As [`Table::reserve`], but a random identifier, which cannot be guessed from others. (If it
    /// is taken, the next free one.)
    pub(crate) fn reserve_random(&self, owner: &Owner) -> Result<u32> {
        self.quota.take(owner)?;
        let (id, _) = self
            .alloc(random(self.min, self.max), owner, false)
            .inspect_err(|_| self.quota.give(owner))?;
        Ok(id)
    }

    fn reserve_with(&self, owner: &Owner, atomic: bool) -> Result<u32> {
        self.quota.take(owner)?;
        let (id, next) = self
            .alloc(self.next.load(Relaxed), owner, atomic)
            .inspect_err(|_| self.quota.give(owner))?;
        self.next.store(next, Relaxed);
        Ok(id)
    }

    /// Takes a free identifier, searched for from `next` on. Returns it, and where the next search
    /// begins.
    fn alloc(&self, mut next: u32, owner: &Owner, atomic: bool) -> Result<(u32, u32)> {
        let flags = if atomic { GFP_ATOMIC } else { GFP_CHARGED };
        let mut id = 0;
        let (array, min, max) = (self.array.get(), self.min, self.max);
        let entry = KBox::into_raw(KBox::new(Entry::<T>::new(owner), flags)?);
        // SAFETY: the array is initialised, `id` and `next` are writable, and the entry is as the
        // invariants ask.
        let status =
            unsafe { ffi::oxe_xa_alloc(array, &mut id, entry.cast(), min, max, &mut next, atomic) };
        to_result(status).inspect_err(|_| {
            // SAFETY: the array did not take the entry.
            drop(unsafe { KBox::from_raw(entry) })
        })?;
        Ok((id, next))
    }

    /// Reserves the identifier `id` for a kernel user. It need not be one that the table chooses
    /// from. Otherwise as [`Table::reserve`].
    pub(crate) fn reserve_at(&self, id: u32) -> Result {
        let owner = &Owner::KERNEL;
        self.quota.take(owner)?;
        self.insert(id).inspect_err(|_| self.quota.give(owner))
    }

    fn insert(&self, id: u32) -> Result {
        let entry = KBox::into_raw(KBox::new(Entry::<T>::new(&Owner::KERNEL), GFP_CHARGED)?);
        let array = self.array.get();
        // SAFETY: the array is initialised, and the entry is as the invariants ask.
        to_result(unsafe { ffi::oxe_xa_insert(array, id, entry.cast()) }).inspect_err(|_| {
            // SAFETY: the array did not take the entry.
            drop(unsafe { KBox::from_raw(entry) })
        })
    }

    /// Lets readers find `object` at `id`, which has been reserved. Any context; takes no memory.
    ///
    /// Drops `object`, and says so in the log, if `id` is not reserved or has an object already.
    pub(crate) fn publish(&self, id: u32, object: Arc<T>) {
        let reading = rcu::read_lock();
        let Some(entry) = self.entry(id, &reading) else {
            pr_err!("table: {id:#x} is published, but not reserved\n");
            return;
        };
        let object = Arc::into_raw(object);
        // Release: readers see the object as it was built.
        let address = object.expose_provenance();
        if entry.object.cmpxchg(0, address, Release).is_err() {
            pr_err!("table: {id:#x} is published twice\n");
            // SAFETY: the entry did not take the reference that was just turned into an address.
            drop(unsafe { Arc::from_raw(object) });
        }
    }

    /// Gives up a reserved identifier. Any context.
    pub(crate) fn cancel(&self, id: u32) {
        self.remove(id);
    }

    /// Removes what is at `id`; returns whether there was something. Any context.
    ///
    /// New readers find nothing from now on; present ones may still use the object.
    pub(crate) fn remove(&self, id: u32) -> bool {
        // SAFETY: the array is initialised.
        let entry = unsafe { ffi::oxe_xa_erase(self.array.get(), id) }.cast::<Entry<T>>();
        if entry.is_null() {
            return false;
        }
        // SAFETY: it came from `KBox::into_raw`, and nothing frees it before the callback.
        self.quota.give(unsafe { &(*entry).owner });
        // SAFETY: the entry is no longer in the array, so we alone may free it. The callback does,
        // when no reader can have it any more.
        unsafe { ffi::call_rcu(Opaque::cast_into(&raw const (*entry).rcu), Some(free::<T>)) };
        true
    }
}

/// A random number in `min..=max`.
fn random(min: u32, max: u32) -> u32 {
    // A product of two 32-bit numbers fits in 64 bits, and its upper half is below the span.
    let span = u64::from(max.saturating_sub(min)) + 1;
    let skip = (u64::from(super::random_u32()) * span) >> 32;
    // CAST: 32 bits are left after the shift.
    min.saturating_add(skip as u32)
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for Table<T> {
    fn drop(self: Pin<&mut Self>) {
        let array = self.array.get();
        let (mut id, mut after) = (0usize, false);
        loop {
            // SAFETY: the array is initialised and `id` is writable.
            let entry = unsafe { ffi::oxe_xa_next(array, &mut id, after) };
            if entry.is_null() {
                break;
            }
            // SAFETY: it came from `KBox::into_raw`, and no other context has access to the table
            // any more.
            drop(unsafe { KBox::from_raw(entry.cast::<Entry<T>>()) });
            after = true;
        }
        // SAFETY: the array is initialised, and not used again.
        unsafe { ffi::xa_destroy(array) };
    }
}

/// The module holds it while it is loaded. Its drop waits until removed objects are freed, as the
/// code that frees them is about to be unloaded. Dropping a table does not wait.
pub(crate) struct Reclaim;

impl Drop for Reclaim {
    /// Process context.
    fn drop(&mut self) {
        rcu_barrier();
    }
}

/// Waits until the tables have given up their references to all objects that were removed. Process
/// context.
pub(crate) fn rcu_barrier() {
    // SAFETY: may be called wherever sleeping is allowed.
    unsafe { ffi::rcu_barrier() };
}

/// Drops an entry, and with it the table's reference to its object. Softirq.
///
/// # Safety
///
/// `head` is the field `rcu` of an [`Entry<T>`] from `KBox::into_raw` that nothing else will free.
unsafe extern "C" fn free<T>(head: *mut callback_head) {
    // `rcu` is the first field of the `repr(C)` entry.
    // SAFETY: the caller's promise.
    drop(unsafe { KBox::from_raw(head.cast::<Entry<T>>()) });
}
