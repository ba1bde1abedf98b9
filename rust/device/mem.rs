// SPDX-License-Identifier: GPL-2.0

//! Memory: regions, windows and their keys, scatter/gather lists, references to a payload.

pub(crate) mod error;
pub(crate) mod fast_mr;
pub(crate) mod grant;
pub(crate) mod mkey;
pub(crate) mod mkeys;
pub(crate) mod mr;
pub(crate) mod mw;
mod odp;
pub(crate) mod payload;
pub(crate) mod range;
pub(crate) mod sge;
pub(crate) mod writer;
