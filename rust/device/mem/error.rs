// SPDX-License-Identifier: GPL-2.0

//! Why the bytes of a memory region cannot be had.

use crate::proto::transport::{AccessError, Status};

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemError {
    /// No region of the PD has this key and the rights that are asked for.
    Key,
    /// The bytes are not all inside the region, or inside what the list or the grant covers.
    Bounds,
    /// The region was deregistered, or the request that named it is complete.
    Revoked,
    /// The region has no such page.
    Fault,
}

/// The completion of a request whose local memory cannot be had (IBTA 10.8.3, 11.6.2).
impl From<MemError> for Status {
    #[inline]
    fn from(_: MemError) -> Self {
        Status::LocProt
    }
}

/// The answer to a peer that names memory which cannot be had (IBTA 9.7.4.1.5).
impl From<MemError> for AccessError {
    #[inline]
    fn from(_: MemError) -> Self {
        AccessError::Access
    }
}
