// SPDX-License-Identifier: GPL-2.0

//! The requester before and after an input: what a trace of a connection shows.

use super::common::DropReason;
use super::cwnd::CongestionControl;
use super::wire::{PacketRepr, Psn, Syndrome};
use super::Requester;

/// The part of a requester's state that a trace compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The oldest PSN that is not acknowledged.
    pub una: Psn,
    /// The PSN of the packet to be sent next.
    pub next: Psn,
    /// Request packets that were sent and are not acknowledged.
    pub in_flight: u16,
    /// The congestion window, in request packets.
    pub cwnd: u16,
    /// The slow start threshold, in request packets.
    pub ssthresh: u16,
    /// The window of outstanding READ responses, in PSNs.
    pub read_window: u32,
    /// The smoothed round trip time in nanoseconds, or 0 before the first sample.
    pub srtt: u64,
    /// READ responses that are missing are to be asked for alone.
    pub gap: bool,
    /// A request packet that is missing is to be sent again alone.
    pub repair: bool,
    /// Retransmissions without progress.
    pub retries: u8,
    /// RNR NAKs without progress.
    pub rnr_retries: u8,
}

/// What came between two snapshots.
#[derive(Clone, Copy, Debug)]
pub enum Trigger<'a> {
    /// A packet, and why it was dropped, if it was.
    Packet(&'a PacketRepr, Option<DropReason>),
    /// The time of a timeout.
    Timeout,
}

/// The reason for which a requester changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A response, or an ACK.
    Ack,
    /// The ACK timeout.
    Timeout,
    /// The probe timeout: a tail loss probe.
    Probe,
    /// A NAK: the responder misses a packet.
    Sequence,
    /// A response after a lost one (IBTA 9.7.6.1, implied NAK).
    Response,
    /// An RNR NAK.
    Rnr,
    /// A page of the memory that a response goes to is not present.
    Page,
}

/// The difference of two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The reason of all of it.
    pub cause: Cause,
    /// How many PSNs were acknowledged.
    pub acked: u32,
    /// Packets that were sent are to be sent again, from the oldest one on that is not
    /// acknowledged, or that one alone, for a gap in READ responses: at once, or after a wait for
    /// [`Cause::Rnr`] and [`Cause::Page`].
    pub sends_again: bool,
    /// A window changed.
    pub windows: bool,
}

impl Snapshot {
    /// The change since the snapshot `before`, which `input` has brought about.
    pub fn since(&self, before: &Snapshot, input: Trigger<'_>) -> Change {
        let back = before.next.offset_from(self.next);
        let asks = self.gap && !before.gap;
        Change {
            cause: match input {
                Trigger::Timeout if self.retries != before.retries => Cause::Timeout,
                Trigger::Timeout => Cause::Probe,
                Trigger::Packet(..) if asks => Cause::Response,
                Trigger::Packet(packet, dropped) => cause(packet, dropped),
            },
            acked: self.una.offset_from(before.una),
            sends_again: asks || self.repair && !before.repair || back != 0 && back < Psn::HALF,
            windows: (self.cwnd, self.ssthresh, self.read_window)
                != (before.cwnd, before.ssthresh, before.read_window),
        }
    }
}

/// The cause of what a response did.
fn cause(packet: &PacketRepr, dropped: Option<DropReason>) -> Cause {
    match (packet.ext.aeth().map(|aeth| aeth.syndrome), dropped) {
        (_, Some(DropReason::NotPresent)) => Cause::Page,
        (_, Some(DropReason::Gap)) => Cause::Response,
        (Some(Syndrome::RnrNak { .. }), _) => Cause::Rnr,
        (Some(Syndrome::Nak { .. }), _) => Cause::Sequence,
        _ => Cause::Ack,
    }
}

impl<C: CongestionControl> Requester<C> {
    /// The requester now.
    pub fn snapshot(&self) -> Snapshot {
        let (retries, rnr_retries) = self.recovery.retries();
        Snapshot {
            una: self.una.psn,
            next: self.cursor.psn,
            in_flight: self.in_flight.packets(),
            cwnd: self.recovery.cwnd(),
            ssthresh: self.recovery.ssthresh(),
            read_window: self.recovery.read_window(),
            srtt: self.recovery.srtt(),
            gap: self.kept.is_due(),
            repair: self.selective.is_due(),
            retries,
            rnr_retries,
        }
    }
}
