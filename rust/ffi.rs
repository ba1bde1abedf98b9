// SPDX-License-Identifier: GPL-2.0

//! The raw bindings: the kernel crate's, and our own for the RDMA core and for the helpers in
//! `ffi/`.
//!
//! Only `rdma`, `net` and `sync` may use this module; `oxe.rs` uses [`compat`], and `device/uabi`
//! the macros of [`rxe_abi`].

// `allow` and not `expect`: which of them there are depends on the kernel's headers.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    improper_ctypes,
    improper_ctypes_definitions,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

pub(crate) mod compat;
#[macro_use]
pub(crate) mod rxe_abi;

use kernel::ffi;
use pin_init::{MaybeZeroable, Zeroable};

// Items that `generated.rs` defines shadow those of the glob.
pub use kernel::bindings::*;

include!("ffi/generated.rs");

pub(crate) use rxe_abi::{rxe_atomic_wr, rxe_flush_wr, rxe_mw_wr, rxe_rdma_wr, rxe_ud_wr};

// SAFETY: a bit field's storage is an array of integers.
unsafe impl<S: Zeroable> Zeroable for __BindgenBitfieldUnit<S> {}
