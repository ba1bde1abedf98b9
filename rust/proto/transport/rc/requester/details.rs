// SPDX-License-Identifier: GPL-2.0

//! Details of a requester, for those who look into a connection.

use super::common::Attr;
use super::cwnd::CongestionControl;
use super::tally::{EventCounts, RequesterEvent};
use super::Requester;

/// A moment in the life of a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequesterDetails {
    /// The congestion window, in request packets.
    pub cwnd: u16,
    /// The slow start threshold, in request packets.
    pub ssthresh: u16,
    /// Request packets that were sent and are not acknowledged.
    pub in_flight: u16,
    /// READs and atomics that were sent and are not answered.
    pub rd_atomic: u16,
    /// The window of outstanding READ responses, in PSNs.
    pub read_window: u32,
    /// The smoothed round trip time in nanoseconds, or 0 before the first sample (RFC 6298 2).
    pub srtt: u64,
    /// How long after a request for an acknowledgement a probe is due, in nanoseconds, or 0 before
    /// the first sample (RFC 6298 2).
    pub rto: u64,
    /// Retransmissions that are left before the QP fails, if there is no progress.
    pub retries_left: u8,
    /// The same for RNR NAKs; `None` if there is no limit.
    pub rnr_retries_left: Option<u8>,
}

impl<C: CongestionControl> Requester<C> {
    /// See [`Connection::take_counts`](super::super::Connection::take_counts).
    #[inline]
    pub(in super::super) fn take_counts(&mut self) -> Option<EventCounts> {
        self.tally.take()
    }

    /// A congestion notification has cut the rate of the connection.
    #[cold]
    pub(in super::super) fn note_notification(&mut self) {
        self.tally.note(RequesterEvent::CnpHandled);
    }

    /// The requester now; `attr` are the attributes of its QP.
    pub fn details(&self, attr: &Attr) -> RequesterDetails {
        let (retries_left, rnr_retries_left) = self.recovery.retries_left(attr);
        RequesterDetails {
            cwnd: self.recovery.cwnd(),
            ssthresh: self.recovery.ssthresh(),
            in_flight: self.in_flight.packets(),
            rd_atomic: self.in_flight.rd_atomic(),
            read_window: self.recovery.read_window(),
            srtt: self.recovery.srtt(),
            rto: self.recovery.rto(),
            retries_left,
            rnr_retries_left,
        }
    }
}
