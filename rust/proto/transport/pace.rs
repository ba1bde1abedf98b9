// SPDX-License-Identifier: GPL-2.0

//! How much may be under way: of requests, and of answers to READs.
//!
//! The specification leaves the number of request packets in flight to the requester. Here it is a window that
//! becomes narrower when packets are lost, since everything after a lost packet comes in vain (IBTA
//! 9.7.5.2, go-back-N), and wider as acknowledgements come, much as in RFC 5681, section 3.1.
//!
//! Answers to READs have no window of their own: a responder sends them as fast as it can, and when the requester,
//! or the network between, cannot take them so fast it has no way to learn of it. So a long READ is asked
//! for in pieces, which are READs of their own to the responder, and there is a limit to what was asked for
//! and has not come.

/// How many request packets may be in flight, at most.
pub const WINDOW: u16 = 128;

/// How many after a timeout, and then twice as many with each acknowledgement: what was sent may still wait
/// at a receiver that is slow, and all of it again would only keep that busy.
const RESTART: u16 = 4;

/// The least that a loss makes of the window.
const SMALLEST: u16 = 16;

/// By how much the window grows with an acknowledgement once it is half as wide as it was when a packet was lost.
const WIDER: u16 = 4;

/// How many packets the answer to one READ request has, at most. First and last are longer than the 120 between them, which
/// the network stack takes as rows of no more than 64 KiB: at no path MTU is a row left that has few.
pub(super) const READ_PIECE: u32 = 122;

/// How many packets of answers may be under way at most, if not all are of one request.
const READING: u32 = 32 * READ_PIECE;

/// How many to begin with: network cards have room for some hundreds of packets.
const READ_BEGIN: u32 = 4 * READ_PIECE;

/// How many more with each request that was answered.
const READ_MORE: u32 = READ_PIECE / 16;

/// What may be under way now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Request packets; a READ counts as one for each piece.
    pub(super) window: u16,
    /// Up to this width the window grows quickly.
    calm: u16,
    /// PSNs from the oldest without an answer to the end of the last piece of a READ.
    pub(super) reading: u32,
}

impl Pace {
    /// Of a connection that has sent nothing.
    pub(super) const NEW: Self = Pace {
        window: WINDOW,
        calm: WINDOW,
        reading: READ_BEGIN,
    };

    /// Something was acknowledged.
    #[inline]
    pub(super) fn acknowledged(&mut self) {
        self.window = if self.window < self.calm {
            self.window.saturating_mul(2).min(self.calm)
        } else {
            self.window.saturating_add(WIDER).min(WINDOW)
        };
    }

    /// A piece of a READ was answered.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.reading = self.reading.saturating_add(READ_MORE).min(READING);
    }

    /// The receiver misses a packet.
    #[cold]
    pub(super) fn packet_lost(&mut self) {
        self.calm = (self.window / 2).max(SMALLEST);
        self.window = self.calm;
    }

    /// An answer is missing, of so many PSNs under way.
    #[cold]
    pub(super) fn answer_lost(&mut self, under_way: u32) {
        self.reading = (under_way.min(self.reading) / 2).max(READ_PIECE);
    }

    /// Nothing was heard for so long that everything must be lost, or the peer is very slow.
    #[cold]
    pub(super) fn timed_out(&mut self) {
        self.window = RESTART;
        self.calm = WINDOW;
        self.reading = READ_PIECE;
    }
}
