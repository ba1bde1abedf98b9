// SPDX-License-Identifier: GPL-2.0

//! The bytes of the requests' messages: read for packets, written by responses.

use super::SendQueue;
use crate::device::mem::error::MemError;
use crate::device::mem::payload::{PayloadError, PayloadRef};
use crate::device::mem::sge;
use crate::device::uabi::wqe::RxeSendWqe;
use crate::rdma::strided::{StridedDst, StridedSrc};

impl SendQueue {
    /// Copies `len` bytes of request `n`'s message out.
    ///
    /// # Errors
    ///
    /// As for [`sge::gather`], and Revoked if there is no such request.
    #[inline]
    pub(crate) fn gather(
        &self,
        n: u32,
        offset: u32,
        len: usize,
        out: &mut StridedDst<'_>,
    ) -> Result<(), MemError> {
        let slot = self.slot(n).ok_or(MemError::Revoked)?;
        if slot.inline {
            return self
                .gather_inline(n, offset, len, out)
                .ok_or(MemError::Bounds);
        }
        sge::gather(self.sges_of(n, slot.sges), offset, len, out)
    }

    #[inline]
    fn gather_inline(
        &self,
        n: u32,
        offset: u32,
        len: usize,
        out: &mut StridedDst<'_>,
    ) -> Option<()> {
        let mut at = RxeSendWqe::DATA.checked_add(offset as usize)?;
        out.fill(len, |out| {
            self.ring.read(self.base.wrapping_add(n), at, out)?;
            at = at.checked_add(out.len())?;
            Some(())
        })
    }

    /// A reference to `len` bytes of request `n`'s message.
    ///
    /// # Errors
    ///
    /// As for [`sge::source`], and Revoked if there is no such request.
    #[inline]
    pub(crate) fn source(&self, n: u32, offset: u32, len: u32) -> Result<PayloadRef, PayloadError> {
        let slot = self.slot(n).ok_or(MemError::Revoked)?;
        if slot.inline {
            return Ok(PayloadRef::Inline {
                ring: self.ring.clone(),
                index: self.base.wrapping_add(n),
                at: RxeSendWqe::DATA.saturating_add(offset as usize),
            });
        }
        sge::source(self.sges_of(n, slot.sges), offset, len, self.payer())
    }

    /// Copies bytes into the local memory of request `n`.
    ///
    /// # Errors
    ///
    /// As for [`sge::scatter`], and Revoked if there is no such request.
    #[inline]
    pub(crate) fn scatter(
        &self,
        n: u32,
        offset: u32,
        bytes: StridedSrc<'_>,
    ) -> Result<(), MemError> {
        let slot = self.slot(n).ok_or(MemError::Revoked)?;
        sge::scatter(self.sges_of(n, slot.sges), offset, bytes)
    }
}
