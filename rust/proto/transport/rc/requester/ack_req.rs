// SPDX-License-Identifier: GPL-2.0

//! Which request packets ask for an acknowledgement (IBTA 9.7.5.1.2, coalesced ACKs): one in each
//! half of the window at least, and the last one before a pause. If it turns out that no packet
//! follows one that did not ask, the requester owes an acknowledgement request: it sends that
//! packet again.

use super::wire::Psn;

/// Request packets for an acknowledgement at most.
const MAX_ACK_EVERY: u16 = 32;

/// The requester asks for an acknowledgement at least every so many packets: half of the window, so
/// that acknowledgements clock the packets out, and others follow most of those that ask and show
/// the responder if one is lost. To ask more often costs a host without large windows more than the
/// packets themselves. Where the window is small a wait for all of it
/// leaves room in the queue for the packets of others. `least` is for the smallest windows.
#[inline]
fn ack_every(cwnd: u16, least: u16) -> u16 {
    (cwnd / 2).clamp(least, MAX_ACK_EVERY)
}

/// The acknowledgement requests of one connection.
#[derive(Debug)]
pub(super) struct AckReq {
    /// Packets sent since one asked for an acknowledgement.
    since: u16,
    /// The packet before the cursor did not ask for an acknowledgement.
    owed: bool,
    /// The value of `owed` before the latest packets were sent.
    was_owed: bool,
    /// The number of the latest packets.
    segments: u16,
    /// The first of the packets that were taken back last.
    undone: Option<Psn>,
    /// Packets were taken back a second time, and the one before them has not asked: it asks before
    /// they are tried again, which may be in vain for long.
    first: bool,
    /// Request packets for an acknowledgement at least, where the window is small.
    least: u16,
}

impl AckReq {
    /// The state of a connection that has sent nothing.
    pub(super) const NEW: Self = AckReq {
        since: 0,
        owed: false,
        was_owed: false,
        segments: 0,
        undone: None,
        first: false,
        least: 4,
    };

    /// The same for a controller that measures round trips: of a burst the last packet asks, and
    /// the others make it late, as a queue would.
    pub(super) const OFTEN: Self = AckReq {
        least: 2,
        ..Self::NEW
    };

    /// Whether the packet before the cursor did not ask.
    #[inline]
    pub(super) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Whether the packet before the cursor is to ask before another one is sent: true once.
    #[inline]
    pub(super) fn take_first(&mut self) -> bool {
        core::mem::take(&mut self.first)
    }

    /// How many packets may be sent until one asks.
    #[inline]
    pub(super) fn left(&self, cwnd: u16) -> u16 {
        ack_every(cwnd, self.least).saturating_sub(self.since)
    }

    /// Whether the last of the next `segments` packets asks, as there were so many before it.
    #[inline]
    pub(super) fn is_due(&self, segments: u16, cwnd: u16) -> bool {
        self.since.saturating_add(segments) >= ack_every(cwnd, self.least)
    }

    /// So many packets are sent, the last of which `asks`, or has a response in any case.
    #[inline]
    pub(super) fn on_sent(&mut self, segments: u16, asks: bool) {
        self.was_owed = self.owed;
        self.segments = segments;
        self.owed = !asks;
        self.since = if asks {
            0
        } else {
            self.since.saturating_add(segments)
        };
    }

    /// The packet before the cursor is to ask: it will be sent again if no other one follows.
    #[cold]
    pub(super) fn owe(&mut self) {
        self.owed = true;
    }

    /// There is no need to ask: no packet is in flight, or the packet before the cursor is about to
    /// be sent again.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.owed = false;
    }

    /// The packet before the cursor was sent again, and asked. Those before it did not ask, either:
    /// if it is taken back, one of them must.
    #[cold]
    pub(super) fn on_sent_again(&mut self) {
        self.was_owed = true;
    }

    /// The cursor has gone back to `una`.
    #[inline]
    pub(super) fn rewind(&mut self) {
        self.since = 0;
        self.owed = false;
    }

    /// Whether the packets that are left may have relied on the last `undone` ones, which are taken
    /// back, to ask.
    #[cold]
    pub(super) fn relied_on(&self, undone: u16) -> bool {
        self.was_owed || undone < self.segments
    }

    /// The last `undone` packets, from `psn` on, are taken back; `owed` says whether the packet
    /// before them has to ask.
    #[cold]
    pub(super) fn on_undo(&mut self, psn: Psn, undone: u16, owed: bool) {
        if self.owed {
            self.since = self.since.saturating_sub(undone);
        }
        self.owed = owed;
        self.was_owed = true;
        self.first = owed && self.undone == Some(psn);
        self.undone = Some(psn);
    }

    /// The packets that were taken back will not be tried again.
    #[cold]
    pub(super) fn forget_undone(&mut self) {
        self.first = false;
    }
}
