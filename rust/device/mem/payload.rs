// SPDX-License-Identifier: GPL-2.0

//! References to the payload of a message in the memory of its sender.

use super::mr::Mr;
use crate::device::ring::Ring;
use crate::rdma::strided::StridedSrc;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Why there is no reference to a payload.
pub(crate) enum PayloadError {
    /// There is no memory for the reference now.
    NoMemory,
    /// The payload is not there: its region was deregistered, or the request is gone.
    Gone,
}

/// How much inline data is copied at a time: to the stack, and on from there.
const INLINE_PART: usize = 128;

/// A contiguous part of a region.
pub(crate) struct Segment {
    pub(crate) mr: Arc<Mr>,
    pub(crate) va: u64,
    pub(crate) len: u32,
}

/// Where the payload of a message is.
pub(crate) enum PayloadRef {
    /// Nowhere: it is empty.
    None,
    /// In one region.
    Region(Segment),
    /// In several, or in several places of one.
    List(KVec<Segment>),
    /// In the sender's ring: inline data.
    Inline {
        /// The ring.
        ring: Ring,
        /// The element.
        index: u32,
        /// Where in the element.
        at: usize,
    },
}

impl PayloadRef {
    /// Whether the regions are still open. Any context.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        match self {
            PayloadRef::None | PayloadRef::Inline { .. } => true,
            PayloadRef::Region(segment) => segment.mr.is_open(),
            PayloadRef::List(list) => list.iter().all(|segment| segment.mr.is_open()),
        }
    }

    /// Calls `each` with the `len` bytes, chunk by chunk, and how many came before. `None` if some
    /// are not there, or `each` returns it.
    ///
    /// Any context.
    #[inline]
    pub(crate) fn for_each_chunk(
        &self,
        len: u32,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Option<()>,
    ) -> Option<()> {
        let mut before = 0_u32;
        let mut each = |bytes: StridedSrc<'_>| {
            let at = before;
            before = before.wrapping_add(bytes.len() as u32);
            each(at, bytes)
        };
        match self {
            PayloadRef::None => Some(()),
            PayloadRef::Region(segment) => {
                segment.mr.for_each_chunk(segment.va, len as usize, each)
            }
            PayloadRef::List(list) => list.iter().try_for_each(|segment| {
                segment
                    .mr
                    .for_each_chunk(segment.va, segment.len as usize, &mut each)
            }),
            PayloadRef::Inline { ring, index, at } => {
                let mut part = [0; INLINE_PART];
                let mut done = 0;
                while done < len as usize {
                    let n = INLINE_PART.min((len as usize).saturating_sub(done));
                    let part = part.get_mut(..n)?;
                    ring.read(*index, at.checked_add(done)?, part)?;
                    each(StridedSrc::new(part))?;
                    done = done.saturating_add(n);
                }
                Some(())
            }
        }
    }
}
