// SPDX-License-Identifier: GPL-2.0

//! Copies bytes to a region or window in parts, and checks the region once for all of them.

use super::error::MemError;
use super::mkey::Mkey;
use super::mr::{OpenMr, Side};
use crate::rdma::strided::StridedSrc;

/// The destination of the parts.
enum Target<'a> {
    /// A region that stays open meanwhile, and where its first byte is.
    Mr(OpenMr<'a>, u64),
    /// A fast registration or a window. Each part is checked.
    Temporary,
}

/// See the module's documentation.
pub(crate) struct Writer<'a> {
    target: Target<'a>,
    mkey: &'a Mkey,
    generation: u32,
    va: u64,
    len: u32,
}

impl<'a> Writer<'a> {
    /// For `len` bytes at `va`, by a lookup of this generation. The caller has checked the right to
    /// write.
    ///
    /// Any context with bottom halves disabled until the returned value is dropped; the caller must
    /// not close a region meanwhile.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked.
    #[inline]
    pub(super) fn new(
        mkey: &'a Mkey,
        generation: u32,
        va: u64,
        len: u32,
    ) -> Result<Self, MemError> {
        let target = match mkey {
            Mkey::Mr(mr) => {
                let (open, at) = mr.open(Side::of(generation), va, len.into())?;
                Target::Mr(open, at)
            }
            Mkey::FastMr(_) | Mkey::Mw(_) => Target::Temporary,
        };
        Ok(Writer {
            target,
            mkey,
            generation,
            va,
            len,
        })
    }

    /// Copies a part: to byte `skip` on.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault, NotPresent.
    #[inline]
    pub(crate) fn put(&self, skip: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
        let rest = self.len.checked_sub(skip).ok_or(MemError::Bounds)?;
        if bytes.len() > rest as usize {
            return Err(MemError::Bounds);
        }
        let skip = u64::from(skip);
        let va = self.va.wrapping_add(skip);
        let result = match &self.target {
            Target::Mr(open, at) => open.write(at.wrapping_add(skip), bytes),
            Target::Temporary => self.mkey.write_temporary(self.generation, va, bytes),
        };
        result.map_err(|why| match why {
            MemError::NotPresent => {
                let lens = (bytes.len() as u64, rest.into());
                self.mkey.want(self.generation, va, lens, true)
            }
            why => why,
        })
    }
}
