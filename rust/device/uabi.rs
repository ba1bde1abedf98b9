// SPDX-License-Identifier: GPL-2.0

//! The user ABI: the structures that librxe and the driver share, of rdma_user_rxe.h and
//! ib_user_verbs.h. Documentation/uabi.rst is the contract.
//!
//! - [`ring`]: the header of a ring; [`wqe`], [`cqe`]: its elements.
//! - [`resp`]: responses to the create verbs.
//!
//! The module is pure: plain structures in the processor's byte order, no `unsafe`, nothing beyond
//! `core` and `zerocopy`. It only turns bytes into values: the fields of a copy from a ring are not
//! checked here. Structures and fields are named after those in C. `device/uabi_layout.rs` compares
//! the layouts with those of the kernel's headers. On the host the same files are in a crate of
//! their own (`tools/uabi`) and are tested there.

#![forbid(unsafe_code)]

/// The version of this ABI. librxe takes no other.
pub(crate) const VERSION: u32 = 2;

pub(crate) mod cqe;
pub(crate) mod resp;
pub(crate) mod ring;
pub(crate) mod wqe;
