// SPDX-License-Identifier: GPL-2.0

//! Attributes of shared receive queues, as create, modify and query pass them.

use crate::ffi;

/// The attributes of a shared receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SrqAttr {
    /// Receive requests that it holds.
    pub(crate) max_wr: u32,
    /// SGEs of a receive request.
    pub(crate) max_sge: u32,
    /// The limit: an event is due when fewer requests are left. 0 if none is.
    pub(crate) limit: u32,
}

impl SrqAttr {
    pub(super) fn from_raw(raw: &ffi::ib_srq_attr) -> Self {
        SrqAttr {
            max_wr: raw.max_wr,
            max_sge: raw.max_sge,
            limit: raw.srq_limit,
        }
    }

    pub(super) fn fill(&self, raw: &mut ffi::ib_srq_attr) {
        raw.max_wr = self.max_wr;
        raw.max_sge = self.max_sge;
        raw.srq_limit = self.limit;
    }
}

/// Attributes to be changed; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SrqChange {
    /// See [`SrqAttr::max_wr`].
    pub(crate) max_wr: Option<u32>,
    /// See [`SrqAttr::limit`].
    pub(crate) limit: Option<u32>,
}
