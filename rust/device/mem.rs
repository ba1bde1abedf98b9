// SPDX-License-Identifier: GPL-2.0

//! Memory: regions and their keys, scatter/gather lists, references to a payload.

pub(crate) mod error;
pub(crate) mod grant;
pub(crate) mod mr;
pub(crate) mod payload;
pub(crate) mod sge;
