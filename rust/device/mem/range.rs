// SPDX-License-Identifier: GPL-2.0

//! The addresses of a region or window.

use super::error::MemError;

/// `length` bytes from address `iova` on, as work requests and peers use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) iova: u64,
    pub(crate) length: u64,
}

impl Range {
    /// The offset of `va`, if the `len` bytes from there are all inside.
    ///
    /// # Errors
    ///
    /// Bounds.
    #[inline]
    pub(crate) fn offset(&self, va: u64, len: u64) -> Result<u64, MemError> {
        let offset = va.checked_sub(self.iova).ok_or(MemError::Bounds)?;
        let rest = self.length.checked_sub(offset).ok_or(MemError::Bounds)?;
        if len > rest {
            return Err(MemError::Bounds);
        }
        Ok(offset)
    }

    /// How many bytes there are from `va` on.
    #[inline]
    pub(crate) fn bytes_from(&self, va: u64) -> u64 {
        self.offset(va, 0)
            .map_or(0, |offset| self.length.saturating_sub(offset))
    }
}
