// SPDX-License-Identifier: GPL-2.0

//! The addresses of a region or window.

use super::error::MemError;

/// `length` bytes from address `iova` on, as work requests and peers use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) iova: u64,
    pub(crate) length: u64,
}

/// How many of the bytes that a lookup names must be inside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All of them.
    Whole,
    /// None: the lookup is for as many from the first one on as there are.
    Prefix,
}

impl Range {
    /// How many of the `len` bytes from `va` on a lookup is for.
    ///
    /// # Errors
    ///
    /// Bounds for [`Cover::Whole`].
    #[inline]
    pub(crate) fn covered(&self, va: u64, len: u32, cover: Cover) -> Result<u32, MemError> {
        match cover {
            Cover::Whole => self.offset(va, len.into()).map(|_| len),
            Cover::Prefix => Ok(self.bytes_from(va).min(len.into()) as u32),
        }
    }

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
    fn bytes_from(&self, va: u64) -> u64 {
        self.offset(va, 0)
            .map_or(0, |offset| self.length.saturating_sub(offset))
    }
}
