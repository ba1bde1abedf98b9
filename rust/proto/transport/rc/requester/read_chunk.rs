// SPDX-License-Identifier: GPL-2.0

//! The chunks of a long READ, each of which the requester asks for by one READ request (see
//! `cwnd`).

use super::common::Request;

/// Response packets of one READ request at most. The 120 packets between first and last go out as
/// GSO super-packets of at most 64 KiB; 120 leaves no short super-packet at any path MTU.
pub(in super::super::super) const READ_CHUNK: u32 = 122;

impl Request {
    /// One past the last packet of the chunk of a READ to which packet `index` belongs. The end of
    /// a chunk does not depend on where a READ is resumed: the responder has one resource for each
    /// chunk, and responds to a duplicate that lies within one (IBTA 9.7.5.1.3).
    #[inline]
    pub(super) fn chunk_end(&self, index: u32) -> u32 {
        let end = (index / READ_CHUNK)
            .saturating_add(1)
            .saturating_mul(READ_CHUNK);
        end.min(self.psns)
    }
}
