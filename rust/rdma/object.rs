// SPDX-License-Identifier: GPL-2.0

//! The objects ib_core allocates for us: its own structure first, the driver's Rust value behind
//! it.
//!
//! ib_core zero-allocates `size_ib_xx` bytes, calls create, and frees the memory after destroy (or
//! after a create that failed). The Rust value exists between a create that succeeded and the
//! destroy.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use kernel::types::Opaque;

/// A C structure `C` with a Rust value `R` behind it.
///
/// # Invariants
///
/// `rust` is initialised from [`Object::init`] until [`Object::take`].
#[repr(C)]
pub(super) struct Object<C, R> {
    c: Opaque<C>,
    rust: Opaque<MaybeUninit<R>>,
    _owns: PhantomData<R>,
}

impl<C, R: Send + Sync> Object<C, R> {
    /// The size in bytes that ib_core is to allocate.
    pub(super) const SIZE: usize = {
        // kmalloc guarantees no more for sizes that are not powers of two.
        assert!(core::mem::align_of::<Self>() <= core::mem::align_of::<u64>());
        core::mem::size_of::<Self>()
    };

    /// Puts the Rust value in its place.
    ///
    /// # Safety
    ///
    /// `c` is the first member of an `Object<C, R>` that only this thread can access, and that
    /// holds no value.
    pub(super) unsafe fn init(c: *mut C, value: R) {
        let this = c.cast::<Self>();
        // SAFETY: `c` points to an `Object<C, R>` by the requirement of this function; no other
        // thread accesses it.
        unsafe { Opaque::cast_into(&raw const (*this).rust).write(MaybeUninit::new(value)) };
    }

    /// The Rust value.
    ///
    /// # Safety
    ///
    /// `c` is the first member of an `Object<C, R>` between `init` and `take`, and stays so for
    /// `'a`.
    #[inline]
    pub(super) unsafe fn get<'a>(c: *const C) -> &'a R {
        let this = c.cast::<Self>();
        // SAFETY: the value is initialised, by the requirement of this function and the type's
        // invariant, and there are only shared references to it.
        unsafe { (*Opaque::cast_into(&raw const (*this).rust)).assume_init_ref() }
    }

    /// Moves the Rust value out.
    ///
    /// # Safety
    ///
    /// As for [`Object::get`], and nothing refers to the value any more.
    pub(super) unsafe fn take(c: *mut C) -> R {
        let this = c.cast::<Self>();
        // SAFETY: as in `get`; the caller does not use the place again as a value.
        unsafe { (*Opaque::cast_into(&raw const (*this).rust)).assume_init_read() }
    }
}
