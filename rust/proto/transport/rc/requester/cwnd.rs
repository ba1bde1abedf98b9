// SPDX-License-Identifier: GPL-2.0

//! Congestion windows of the requester, and the interface of a congestion controller.
//!
//! The specification leaves the number of request packets in flight to the requester. A loss wastes
//! every packet after it (go-back-N, IBTA 9.7.5.2), so the window shrinks on loss and grows with
//! acknowledgements.
//!
//! READ responses have no congestion window: a responder sends them as fast as it can and never
//! learns that they are lost. The requester therefore splits a long READ into chunks, each a READ
//! request of its own to the responder, and limits how many response PSNs are outstanding.
//!
//! A controller decides on one such window. A connection has two of them, since requests and READ
//! responses travel in opposite directions, and it is one direction that is congested.

pub mod cubic;
pub mod delay;
pub mod standard;

use super::common::Instant;
use super::read_chunk::chunk_for;
use super::wire::Psn;
use core::fmt::Debug;

/// Largest window, in packets: those of 1 kB that a path of 10 Gb/s and 10 ms holds, and some.
pub const MAX_WINDOW: u32 = 1 << 14;

/// What a controller learns of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// How many packets were acknowledged: request packets, a READ being one for each chunk, or
    /// READ response packets. 0 if the acknowledgement is of another kind.
    pub packets: u32,
    /// When.
    pub now: Instant,
    /// The smoothed round trip time in nanoseconds; 0 before the first sample.
    pub rtt: u64,
    /// The smallest one at the end of a round trip; `u64::MAX` before the first sample.
    pub min_rtt: u64,
    /// How many packets, or PSNs of READ responses, are still in flight.
    pub in_flight: u32,
    /// A round trip has passed since the last acknowledgement that said so.
    pub ends_round: bool,
}

/// What a controller learns of a loss.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When it was noticed.
    pub now: Instant,
    /// How many packets were in flight, the lost ones included.
    pub in_flight: u32,
}

/// What a controller learns of a round trip whose time was measured.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// When it ended.
    pub now: Instant,
    /// How long it took, in nanoseconds: from a packet that asked for an acknowledgement to that,
    /// or from a READ request to the first packet of its response.
    pub nanos: u64,
}

/// Which acknowledgements have no effect on a controller, as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored {
    /// Those after which fewer packets than these are in flight.
    pub below: u32,
    /// Those of packets of the other direction.
    pub others: bool,
}

impl Ignored {
    /// Whether an acknowledgement of so many packets, which leaves others in flight, has an effect.
    #[inline]
    fn has_effect(self, acked: u32, in_flight: u32) -> bool {
        in_flight >= self.below && !(self.others && acked == 0)
    }
}

/// Packets that an acknowledgement is of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    /// Request packets; a READ is one for each chunk.
    pub requests: u32,
    /// Response packets of READ chunks that are complete.
    pub responses: u32,
}

impl Acked {
    /// These packets, and those of `other`.
    pub(super) fn and(self, other: Acked) -> Acked {
        Acked {
            requests: self.requests.saturating_add(other.requests),
            responses: self.responses.saturating_add(other.responses),
        }
    }
}

/// The packets in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    /// The oldest PSN that is not acknowledged, and the next to be sent.
    pub una: Psn,
    pub next: Psn,
    /// Request packets, and READs and atomics among them.
    pub packets: u16,
    pub rd_atomic: u16,
}

/// A congestion controller: the window of one direction of a connection, in packets of the path
/// MTU. It is plain data and decides by what it is told alone. Nothing here may panic, and windows
/// are at least 1.
pub trait CongestionControl: Copy + Debug {
    /// The controller of request packets before any was sent.
    const REQUESTS: Self;
    /// The controller of READ response packets before any was asked for.
    const RESPONSES: Self;

    /// The same controller as this one of request packets, before any was sent. Only a type of
    /// several controllers has its own.
    fn requests_anew(&self) -> Self {
        Self::REQUESTS
    }
    /// The same controller as this one of READ response packets, before any was asked for.
    fn responses_anew(&self) -> Self {
        Self::RESPONSES
    }

    /// How many packets may be in flight.
    fn window(&self) -> u32;
    /// The time between packets in nanoseconds, if they are to be paced, at a smoothed round trip
    /// time of `rtt` nanoseconds.
    fn interval(&self, rtt: u64) -> Option<u64>;
    /// The slow start threshold, for those who look into a connection.
    fn ssthresh(&self) -> u32;
    /// Packets were acknowledged, or a round trip ended. Called for every acknowledgement, except
    /// for those that `ignored` describes.
    fn on_ack(&mut self, ack: Ack);
    /// Packets were lost, and are about to be sent again. Called once for an episode: until one of
    /// these is acknowledged, further signs are of the same loss.
    fn on_loss(&mut self, loss: Loss);
    /// The ACK timeout expired: everything in flight is lost, or the peer is very slow.
    fn on_timeout(&mut self, loss: Loss);
    /// Whether a pause has an effect.
    fn restarts(&self) -> bool;
    /// The connection sends again after a pause in which the path may have changed.
    fn on_restart(&mut self);

    /// Of which acknowledgements the controller need not learn, as they have no effect. It is asked
    /// again after each event that it learns of. None by default.
    fn ignored(&self) -> Ignored {
        Ignored::default()
    }
    /// Whether it wants to know how long single round trips take.
    fn measures(&self) -> bool {
        false
    }
    /// A round trip was measured; those before it have ended. Called before `on_ack`.
    fn on_delay(&mut self, _: Delay) {}
}

/// The decisions of a connection's controllers. The controllers are asked again when these may have
/// changed: to ask them for each packet costs more.
#[derive(Clone, Copy, Debug, Default)]
struct Decided {
    /// See the methods of [`Congestion`] with these names.
    cwnd: u16,
    burst_cwnd: u16,
    read_window: u32,
    read_chunk: u32,
    paced: bool,
    reads_paced: bool,
    restarts: bool,
    reads_restart: bool,
    ignored: Ignored,
    ignored_reads: Ignored,
}

impl Decided {
    /// Asks the controller of requests. If it `measures` round trips, bursts are short: a long one
    /// looks like a queue.
    fn ask_for_requests<C: CongestionControl>(&mut self, requests: &C, measures: bool) {
        self.cwnd = u16::try_from(requests.window()).unwrap_or(u16::MAX);
        self.burst_cwnd = if measures { self.cwnd / 4 } else { self.cwnd };
        self.paced = requests.interval(0).is_some();
        self.restarts = requests.restarts();
        self.ignored = requests.ignored();
    }

    /// Asks the controller of READ responses.
    fn ask_for_reads<C: CongestionControl>(&mut self, responses: &C, measures: bool) {
        let window = responses.window();
        self.read_window = window;
        self.read_chunk = chunk_for(if measures { window / 2 } else { window });
        self.reads_paced = responses.interval(0).is_some();
        self.reads_restart = responses.restarts();
        self.ignored_reads = responses.ignored();
    }
}

/// The windows of one connection.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Congestion<C> {
    /// Of request packets. A READ counts one packet per chunk.
    requests: C,
    /// Of READ responses: PSNs from the oldest unacknowledged one to the end of the newest chunk.
    responses: C,
    decided: Decided,
    /// A round trip ends when this PSN is acknowledged: when the last one ended, it was the next to
    /// be sent.
    round: Option<Psn>,
    /// The smallest smoothed round trip time at the end of a round trip, in nanoseconds.
    min_rtt: u64,
    /// When a packet was acknowledged last.
    last_ack: Instant,
    /// The controllers want to know how long round trips take.
    measures: bool,
}

impl<C: CongestionControl> Congestion<C> {
    /// The windows of a connection that has sent nothing.
    pub(super) fn new() -> Self {
        Self::of(C::REQUESTS, C::RESPONSES)
    }

    /// Those of a connection that has sent nothing, with these controllers.
    pub(in super::super) fn of(requests: C, responses: C) -> Self {
        let mut congestion = Congestion {
            requests,
            responses,
            decided: Decided::default(),
            round: None,
            min_rtt: u64::MAX,
            last_ack: Instant(0),
            measures: requests.measures(),
        };
        congestion.look();
        congestion
    }

    /// The same as they were before the first packet.
    pub(in super::super) fn anew(&self) -> Self {
        Self::of(
            self.requests.requests_anew(),
            self.responses.responses_anew(),
        )
    }

    /// Whether the controllers want to know how long round trips take.
    #[inline]
    pub(super) fn measures(&self) -> bool {
        self.measures
    }

    /// A round trip was measured, of request packets or of READ `responses`.
    #[cold]
    pub(super) fn on_delay(&mut self, delay: Delay, responses: bool) {
        if responses {
            self.responses.on_delay(delay);
        } else {
            self.requests.on_delay(delay);
        }
        self.look();
    }

    /// The congestion window, in request packets.
    #[inline]
    pub(super) fn cwnd(&self) -> u16 {
        self.decided.cwnd
    }

    /// The window by which bursts are sized.
    #[inline]
    pub(super) fn burst_cwnd(&self) -> u16 {
        self.decided.burst_cwnd
    }

    /// Whether request packets are paced.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.decided.paced
    }

    /// Whether READ requests are paced.
    #[inline]
    pub(super) fn paces_reads(&self) -> bool {
        self.decided.reads_paced
    }

    /// The time between request packets, in nanoseconds, at a round trip time of `rtt`.
    pub(super) fn interval(&self, rtt: u64) -> u64 {
        self.requests.interval(rtt).unwrap_or(0)
    }

    /// The time between READ requests for one response packet each.
    pub(super) fn read_interval(&self, rtt: u64) -> u64 {
        self.responses.interval(rtt).unwrap_or(0)
    }

    /// A window may have changed.
    fn look(&mut self) {
        self.decided.ask_for_requests(&self.requests, self.measures);
        self.decided.ask_for_reads(&self.responses, self.measures);
    }

    /// The slow start threshold, in request packets.
    pub(super) fn ssthresh(&self) -> u16 {
        u16::try_from(self.requests.ssthresh()).unwrap_or(u16::MAX)
    }

    /// The window of READ responses.
    #[inline]
    pub(super) fn read_window(&self) -> u32 {
        self.decided.read_window
    }

    /// How many packets of a READ are asked for at a time.
    #[inline]
    pub(super) fn read_chunk(&self) -> u32 {
        self.decided.read_chunk
    }

    /// So many request packets, and packets of READ responses, were acknowledged.
    #[cfg(test)]
    pub(super) fn open_windows(&mut self, requests: u32, responses: u32) {
        let ack = |packets| Ack {
            packets,
            now: Instant(0),
            rtt: 0,
            min_rtt: 0,
            in_flight: 0,
            ends_round: false,
        };
        self.requests.on_ack(ack(requests));
        self.responses.on_ack(ack(responses));
        self.look();
    }

    /// Packets were acknowledged, and others are `left`; `rtt` is the smoothed round trip time.
    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, rtt: u64, acked: Acked, left: Outstanding) {
        self.last_ack = now;
        let ends_round = self.round.is_none_or(|end| left.una.distance(end) >= 0);
        if ends_round {
            self.round = Some(left.next);
            if rtt != 0 {
                self.min_rtt = self.min_rtt.min(rtt);
            }
        }
        let ack = Ack {
            packets: 0,
            now,
            rtt,
            min_rtt: self.min_rtt,
            in_flight: 0,
            ends_round,
        };
        let packets = left.packets.into();
        if self.decided.ignored.has_effect(acked.requests, packets) {
            self.requests.on_ack(Ack {
                packets: acked.requests,
                in_flight: packets,
                ..ack
            });
            self.decided.ask_for_requests(&self.requests, self.measures);
        }
        let span = left.next.offset_from(left.una);
        // A round trip without READs says nothing about the direction of their responses.
        let of_reads = ends_round && left.rd_atomic > 0 || acked.responses > 0;
        if of_reads && self.decided.ignored_reads.has_effect(acked.responses, span) {
            self.responses.on_ack(Ack {
                packets: acked.responses,
                in_flight: span,
                ..ack
            });
            self.decided.ask_for_reads(&self.responses, self.measures);
        }
    }

    /// Whether a pause has an effect.
    #[inline]
    pub(super) fn restarts(&self) -> bool {
        self.decided.restarts || self.decided.reads_restart
    }

    /// Nothing was in flight until now; `rto` nanoseconds without an acknowledgement are a pause
    /// (RFC 5681 4.1).
    #[cold]
    pub(super) fn on_first(&mut self, now: Instant, rto: Option<u64>) {
        let pause = now.0.saturating_sub(self.last_ack.0);
        if rto.is_some_and(|rto| pause > rto) {
            self.requests.on_restart();
            self.responses.on_restart();
            self.look();
        }
    }

    /// The responder reported a lost request packet (PSN sequence error NAK).
    #[cold]
    pub(super) fn on_loss(&mut self, loss: Loss) {
        self.requests.on_loss(loss);
        self.look();
    }

    /// A READ or atomic response was lost.
    #[cold]
    pub(super) fn on_response_loss(&mut self, loss: Loss) {
        self.responses.on_loss(loss);
        self.look();
    }

    /// The ACK timeout expired.
    #[cold]
    pub(super) fn on_timeout(&mut self, requests: Loss, responses: Loss) {
        // The path may be another one.
        self.min_rtt = u64::MAX;
        self.requests.on_timeout(requests);
        self.responses.on_timeout(responses);
        self.look();
    }
}
