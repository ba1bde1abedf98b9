// SPDX-License-Identifier: GPL-2.0

//! The reason that the bytes of a memory region cannot be accessed.

use crate::proto::transport::{AccessError, PlaceError, Status};
use crate::rdma::odp::OdpError;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemError {
    /// No region of the PD has this key and the requested rights.
    Key,
    /// The bytes are not all inside the region, the list or the grant.
    Bounds,
    /// The region was deregistered, or the request that named it is complete.
    Revoked,
    /// The region has no such page.
    Fault,
    /// A page is not present. It was asked for; the same access may succeed later. Also: a loopback
    /// packet's payload is gone, which its sender finds out when it is to send that again.
    NotPresent,
}

/// The completion status of a request whose local memory cannot be accessed (IBTA 10.8.3, 11.6.2).
impl From<MemError> for Status {
    #[inline]
    fn from(_: MemError) -> Self {
        Status::LocProt
    }
}

/// The reason for the NAK to a peer whose request names memory that cannot be accessed
/// (IBTA 9.7.4.1.5).
impl From<MemError> for AccessError {
    #[inline]
    fn from(why: MemError) -> Self {
        match why {
            MemError::NotPresent => AccessError::NotPresent,
            _ => AccessError::Access,
        }
    }
}

impl From<MemError> for PlaceError {
    #[inline]
    fn from(why: MemError) -> Self {
        match why {
            MemError::NotPresent => PlaceError::NotPresent,
            why => PlaceError::Failed(why.into()),
        }
    }
}

impl From<OdpError> for MemError {
    #[inline]
    fn from(why: OdpError) -> Self {
        match why {
            OdpError::NotPresent => MemError::NotPresent,
            OdpError::Fault => MemError::Fault,
        }
    }
}
