// SPDX-License-Identifier: GPL-2.0

//! The chunks of a long READ, each of which the requester asks for by one READ request (see
//! `cwnd`). Their size is decided when the READ starts: a responder sends a whole chunk at once, so
//! chunks are small where the window is.

use super::common::Request;

/// Response packets of one READ request at most, and of all of them where the window is not small.
/// The 120 packets between first and last go out as GSO super-packets of at most 64 KiB; 120 leaves
/// no short super-packet at any path MTU.
pub(in super::super::super) const READ_CHUNK: u32 = 122;

/// The chunks of a READ that starts while the window of READ responses is `window`: two of them
/// fit, so that one is on its way while the other is asked for.
#[inline]
pub(super) fn chunk_for(window: u32) -> u32 {
    (window / 2).clamp(1, READ_CHUNK)
}

impl Request {
    /// One past the last packet of the chunk of a READ to which packet `index` belongs. The end of
    /// a chunk does not depend on where a READ is resumed: the responder has one resource for each
    /// chunk, and responds to a duplicate that lies within one (IBTA 9.7.5.1.3).
    #[inline]
    pub(super) fn chunk_end(&self, index: u32) -> u32 {
        // Most READs are of one chunk.
        if self.psns <= self.chunk {
            return self.psns;
        }
        let end = self.chunk_start(index).saturating_add(self.chunk);
        end.min(self.psns)
    }

    /// The first packet of the chunk of a READ to which packet `index` belongs.
    #[inline]
    pub(super) fn chunk_start(&self, index: u32) -> u32 {
        match self.psns <= self.chunk {
            true => 0,
            false => index.saturating_sub(index.checked_rem(self.chunk).unwrap_or(0)),
        }
    }
}
