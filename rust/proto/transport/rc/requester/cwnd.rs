// SPDX-License-Identifier: GPL-2.0

//! Congestion window of the requester, and the window of outstanding READ responses.
//!
//! The specification leaves the number of request packets in flight to the requester. A loss wastes
//! every packet after it (go-back-N, IBTA 9.7.5.2), so the window shrinks on loss and grows with
//! each acknowledgement, as in RFC 5681 3.1.
//!
//! READ responses have no congestion window: a responder sends them as fast as it can and never
//! learns that they are lost. The requester therefore splits a long READ into chunks, each a READ
//! request of its own to the responder, and limits how many response PSNs are outstanding.

use super::read_chunk::READ_CHUNK;

/// Largest congestion window, in request packets.
pub const MAX_CWND: u16 = 128;

/// Congestion window after a timeout, in packets. It doubles with each acknowledgement. The lost
/// packets may only be queued at a slow receiver, which a full window of retransmissions would keep
/// busy.
const RESTART_CWND: u16 = 4;

/// Smallest congestion window after a loss, in packets.
const MIN_CWND: u16 = 16;

/// Growth of the congestion window per acknowledgement above `ssthresh`, in packets.
const CWND_STEP: u16 = 4;

/// Largest window of outstanding READ responses, in PSNs.
const MAX_READ_WINDOW: u32 = 32 * READ_CHUNK;

/// Initial window of outstanding READ responses, in PSNs: NICs queue some hundreds of packets.
const INITIAL_READ_WINDOW: u32 = 4 * READ_CHUNK;

/// Growth of that window per chunk whose response is complete, in PSNs.
const READ_WINDOW_STEP: u32 = READ_CHUNK / 16;

/// The windows of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Congestion {
    /// Congestion window, in request packets. A READ counts one packet per chunk.
    cwnd: u16,
    /// Slow start threshold: below it the congestion window doubles.
    ssthresh: u16,
    /// Window of READ responses: PSNs from the oldest unacknowledged one to the end of the newest
    /// chunk.
    read_window: u32,
}

impl Congestion {
    /// The windows of a connection that has sent nothing.
    pub(super) const NEW: Self = Congestion {
        cwnd: MAX_CWND,
        ssthresh: MAX_CWND,
        read_window: INITIAL_READ_WINDOW,
    };

    /// The congestion window.
    #[inline]
    pub(super) fn cwnd(&self) -> u16 {
        self.cwnd
    }

    /// The slow start threshold.
    pub(super) fn ssthresh(&self) -> u16 {
        self.ssthresh
    }

    /// The window of READ responses.
    #[inline]
    pub(super) fn read_window(&self) -> u32 {
        self.read_window
    }

    /// An acknowledgement advanced `una`.
    #[inline]
    pub(super) fn on_ack(&mut self) {
        self.cwnd = if self.cwnd < self.ssthresh {
            self.cwnd.saturating_mul(2).min(self.ssthresh)
        } else {
            self.cwnd.saturating_add(CWND_STEP).min(MAX_CWND)
        };
    }

    /// The last response packet of a chunk arrived.
    #[inline]
    pub(super) fn on_read_response(&mut self) {
        self.read_window = self
            .read_window
            .saturating_add(READ_WINDOW_STEP)
            .min(MAX_READ_WINDOW);
    }

    /// The responder reported a lost request packet (PSN sequence error NAK).
    #[cold]
    pub(super) fn on_loss(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(MIN_CWND);
        self.cwnd = self.ssthresh;
    }

    /// A READ or atomic response was lost while `outstanding` PSNs were in flight.
    #[cold]
    pub(super) fn on_response_loss(&mut self, outstanding: u32) {
        self.read_window = (outstanding.min(self.read_window) / 2).max(READ_CHUNK);
    }

    /// The ACK timeout expired: everything in flight is lost, or the peer is very slow.
    #[cold]
    pub(super) fn on_timeout(&mut self) {
        self.cwnd = RESTART_CWND;
        self.ssthresh = MAX_CWND;
        self.read_window = READ_CHUNK;
    }
}
