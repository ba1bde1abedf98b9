// SPDX-License-Identifier: GPL-2.0

//! The chunks of a long READ, each of which the requester asks for by one READ request (see
//! `cwnd`). A responder sends a whole chunk at once, so chunks are small where the window is. The
//! packets that were not asked for yet may have chunks of another size than those in flight. The
//! next change waits until these are acknowledged, so a READ has two sizes at a time.

use super::common::Request;

/// Response packets of one READ request where the window is not small, and the path not long. The
/// 120 packets between first and last go out as GSO super-packets of at most 64 KiB; 120 leaves no
/// short super-packet at any path MTU.
pub(in super::super::super) const READ_CHUNK: u32 = 2 + MIDDLE;
const MIDDLE: u32 = 120;

/// So many READ requests fill a large window. Peers often have room for twice as many, and no more
/// (IBTA 9.7.3.1 leaves the number to them): a READ may be a little longer than a chunk.
const MANY: u32 = 8;

/// The chunks that are asked for while the window of READ responses is `window`: two of them fit,
/// so that one is on its way while the other is asked for.
#[inline]
pub(super) fn chunk_for(window: u32) -> u32 {
    if window < MANY * READ_CHUNK {
        return (window / 2).clamp(1, READ_CHUNK);
    }
    2 + MIDDLE * (window / MANY / MIDDLE)
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
        if index >= self.base {
            let end = self.chunk_start(index).saturating_add(self.chunk);
            return end.min(self.psns);
        }
        let behind = self.base.saturating_sub(index).saturating_sub(1);
        self.base.saturating_sub(floor(behind, self.before))
    }

    /// The first packet of the chunk of a READ to which packet `index` belongs.
    #[inline]
    pub(super) fn chunk_start(&self, index: u32) -> u32 {
        if self.psns <= self.chunk {
            0
        } else if index >= self.base {
            let behind = index.saturating_sub(self.base);
            self.base.saturating_add(floor(behind, self.chunk))
        } else {
            self.chunk_end(index).saturating_sub(self.before)
        }
    }

    /// Whether the packets of a READ from `index` on, which was not asked for yet, may have chunks
    /// of another size: those before `acked` were acknowledged.
    #[inline]
    pub(super) fn may_resize(&self, acked: u32) -> bool {
        acked >= self.base
    }

    /// The packets from `index` on, where a chunk begins, have chunks of this size.
    pub(super) fn resize(&mut self, index: u32, chunk: u32) {
        self.base = index;
        self.before = self.chunk;
        // So it is less than all of the READ.
        self.chunk = chunk.min(self.psns.saturating_sub(index));
    }
}

/// The largest multiple of `unit` that is no larger than `value`.
#[inline]
fn floor(value: u32, unit: u32) -> u32 {
    value.saturating_sub(value.checked_rem(unit).unwrap_or(0))
}
