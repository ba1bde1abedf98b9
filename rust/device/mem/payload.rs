// SPDX-License-Identifier: GPL-2.0

//! References to the payload of a message in the memory of its sender.

use super::error::MemError;
use super::grant::Grant;
use crate::device::ring::Ring;
use crate::rdma::strided::StridedSrc;
use kernel::prelude::*;

/// The reason that there is no reference to a payload.
pub(crate) enum PayloadError {
    /// There is no memory for the reference now.
    NoMemory,
    /// The payload cannot be read.
    Gone(MemError),
}

impl From<MemError> for PayloadError {
    #[inline]
    fn from(why: MemError) -> Self {
        PayloadError::Gone(why)
    }
}

/// Bytes of inline data that are copied to the stack, and on from there, at a time.
const INLINE_PART: usize = 128;

/// The place of a message's payload.
pub(crate) enum PayloadRef {
    /// The payload is empty.
    None,
    /// In one region.
    Region(Grant),
    /// In several regions, or in several places of one.
    List(KVec<Grant>),
    /// In the sender's ring: inline data.
    Inline {
        /// The ring.
        ring: Ring,
        /// The element.
        index: u32,
        /// The offset in the element.
        at: usize,
    },
}

impl PayloadRef {
    /// Calls `each` with the `len` bytes, chunk by chunk: the number of bytes before the chunk, and
    /// its bytes. Any context.
    ///
    /// # Errors
    ///
    /// Bounds, Revoked, Fault; Fault also if `each` returns `None`.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        len: u32,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        let mut before = 0_u32;
        let mut each = |bytes: StridedSrc<'_>| {
            let at = before;
            before = before.wrapping_add(bytes.len() as u32);
            each(at, bytes)
        };
        match self {
            PayloadRef::None => Ok(()),
            PayloadRef::Region(grant) => grant.for_each_chunk(0, len as usize, each),
            PayloadRef::List(list) => list
                .iter()
                .try_for_each(|grant| grant.for_each_chunk(0, grant.len() as usize, &mut each)),
            PayloadRef::Inline { ring, index, at } => {
                copy_inline(ring, *index, *at, len as usize, each).ok_or(MemError::Fault)
            }
        }
    }
}

/// Copies inline data to the stack, part by part, and passes each part to `each`.
#[inline]
fn copy_inline(
    ring: &Ring,
    index: u32,
    at: usize,
    len: usize,
    mut each: impl FnMut(StridedSrc<'_>) -> Option<()>,
) -> Option<()> {
    let mut part = [0; INLINE_PART];
    let mut done = 0;
    while done < len {
        let n = INLINE_PART.min(len.saturating_sub(done));
        let part = part.get_mut(..n)?;
        ring.read(index, at.checked_add(done)?, part)?;
        each(StridedSrc::new(part))?;
        done = done.saturating_add(n);
    }
    Some(())
}
