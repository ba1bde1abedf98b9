// SPDX-License-Identifier: GPL-2.0

//! Tail loss probe, and the round trip time estimator that sets its timeout.
//!
//! A responder detects a lost packet by the next one (IBTA 9.7.5.2, PSN sequence error). The loss
//! of the last packet, or of its response, is detected by the requester's ACK timeout alone, which
//! programs set to a thousand round trips. The requester therefore sends a probe, one outstanding
//! packet once more, when a response is several round trips late. The responder acknowledges it
//! again or reports the gap, as it does for any duplicate (IBTA 9.7.5.1.3). A probe is not a retry
//! as IBTA 9.9.2.1 counts them, and the ACK timeout runs on.
//!
//! The estimator follows RFC 6298 2; the probe is as in RFC 8985 7.

use super::common::Instant;
use super::wire::Psn;

/// The shortest probe timeout, in nanoseconds: longer than a peer delays an ACK, and than a busy
/// host delays a packet.
pub(in super::super::super) const MIN_TIMEOUT_NS: u64 = 1_000_000;

/// The shortest probe timeout while the connection has never lost a packet, in nanoseconds: a timer
/// that expires needlessly costs as much as a packet.
pub(in super::super::super) const LOSSLESS_MIN_TIMEOUT_NS: u64 = 4_000_000;

/// Probes in a row at most, each after twice the timeout of the one before: a probe may be lost,
/// too.
const MAX_PROBES: u8 = 3;

/// The round trip time estimator and the probe timer.
#[derive(Clone, Copy, Debug)]
pub(in super::super::super) struct TailLoss {
    /// Smoothed round trip time and its mean deviation, in nanoseconds. Both are 0 before the first
    /// sample.
    srtt: u64,
    rttvar: u64,
    /// The shortest probe timeout, in nanoseconds.
    min_timeout: u64,
    /// The round trip being measured: at this time the requester asked for an acknowledgement of
    /// every PSN before this one.
    sample: Option<(Psn, Instant)>,
    /// The same round trip ends at the first response to one before this PSN, for those who look at
    /// single ones; whether that is the response to a READ.
    first: Option<(Psn, bool)>,
    /// Probes sent since `una` advanced.
    probes: u8,
    /// Probes sent since the last sample: they may have been too early (RFC 6298 5.5 to 5.7).
    backoff: u8,
    /// When the next probe is due.
    deadline: Option<Instant>,
}

impl TailLoss {
    /// The state of a connection that has sent nothing.
    pub(in super::super::super) const NEW: Self = TailLoss {
        srtt: 0,
        rttvar: 0,
        min_timeout: LOSSLESS_MIN_TIMEOUT_NS,
        sample: None,
        first: None,
        probes: 0,
        backoff: 0,
        deadline: None,
    };

    /// The requester asked for an acknowledgement of every PSN before `end`, by a `fresh` packet or
    /// by a retransmission. A retransmission gives no sample, since the response may belong to
    /// either transmission (RFC 6298 3, Karn's algorithm). `timeout` is the ACK timeout in
    /// nanoseconds; with `None` there is none, and no probe either.
    #[inline]
    pub(in super::super::super) fn on_ack_req(
        &mut self,
        now: Instant,
        end: Psn,
        fresh: bool,
        timeout: Option<u64>,
    ) {
        if fresh && self.sample.is_none() {
            self.sample = Some((end, now));
        }
        self.arm(now, timeout);
    }

    /// The packets that were just sent, of which [`TailLoss::on_ack_req`] was told, begin with this
    /// PSN, and `end` is one past the last; `responds` says whether they ask for responses, as a
    /// READ does, of which the first one ends the round trip.
    #[cold]
    pub(super) fn watch(&mut self, now: Instant, begin: Psn, end: Psn, responds: bool) {
        if self.sample == Some((end, now)) {
            let first = if responds { begin.next() } else { end };
            self.first = Some((first, responds));
        }
    }

    /// Every PSN before `una` is acknowledged: gives the time of the round trip that ends by that,
    /// in nanoseconds, and whether it was that of a response. To be called before
    /// [`TailLoss::on_ack`].
    #[cold]
    pub(super) fn take_first(&mut self, now: Instant, una: Psn) -> Option<(u64, bool)> {
        let (_, then) = self.sample?;
        let (_, responds) = self.first.take_if(|(end, _)| una.distance(*end) >= 0)?;
        Some((now.0.saturating_sub(then.0), responds))
    }

    /// Every PSN before `una` is acknowledged; `more` says whether later ones are in flight.
    /// `timeout` is as in [`TailLoss::on_ack_req`].
    #[inline]
    pub(in super::super::super) fn on_ack(
        &mut self,
        now: Instant,
        una: Psn,
        more: bool,
        timeout: Option<u64>,
    ) {
        self.probes = 0;
        if let Some((_, then)) = self.sample.take_if(|(end, _)| una.distance(*end) >= 0) {
            self.update_rtt(now.0.saturating_sub(then.0));
        }
        self.deadline = None;
        if more {
            self.arm(now, timeout);
        }
    }

    /// A later response came than that of `una`: what is in flight is not late yet.
    #[cold]
    pub(in super::super::super) fn on_kept(&mut self, now: Instant, timeout: Option<u64>) {
        if self.deadline.is_some() {
            self.arm(now, timeout);
        }
    }

    /// The requester goes back to `una`, or asks for a gap: a packet may be lost.
    #[inline]
    pub(in super::super::super) fn on_retransmission(&mut self) {
        self.sample = None;
        self.deadline = None;
        self.min_timeout = MIN_TIMEOUT_NS;
    }

    /// The round trip that is being measured gives no sample.
    #[cold]
    pub(in super::super::super) fn forget_sample(&mut self) {
        self.sample = None;
    }

    /// The smoothed round trip time in nanoseconds; 0 before the first sample.
    pub(super) fn srtt(&self) -> u64 {
        self.srtt
    }

    /// The timeout of the next probe in nanoseconds; `None` before the first sample.
    #[inline]
    pub(super) fn rto(&self) -> Option<u64> {
        let rto = self.srtt.saturating_add(self.rttvar.saturating_mul(4));
        (self.srtt != 0).then_some(rto.max(self.min_timeout) << self.backoff)
    }

    /// The time of the next probe, if one is due.
    #[inline]
    pub(in super::super::super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether a probe before the current one brought no response.
    pub(super) fn was_in_vain(&self) -> bool {
        self.probes > 1
    }

    /// Takes the probe that is due, if one is.
    pub(in super::super::super) fn take_due(&mut self, now: Instant) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.on_retransmission();
        self.probes = self.probes.saturating_add(1);
        self.backoff = self.backoff.saturating_add(1).min(MAX_PROBES);
        true
    }

    #[inline]
    fn arm(&mut self, now: Instant, timeout: Option<u64>) {
        self.deadline = None;
        if self.probes >= MAX_PROBES {
            return;
        }
        let Some(nanos) = self.rto() else { return };
        if timeout.is_some_and(|timeout| nanos < timeout / 2) {
            self.deadline = Some(now.after(nanos));
        }
    }

    /// Takes a sample of the round trip time into account (RFC 6298 2.2, RFC 6298 2.3).
    #[inline]
    fn update_rtt(&mut self, nanos: u64) {
        self.backoff = 0;
        // A coarse clock may give 0, which stands for no sample yet.
        let nanos = nanos.max(1);
        if self.srtt == 0 {
            self.srtt = nanos;
            self.rttvar = nanos / 2;
        } else {
            let off = self.srtt.abs_diff(nanos);
            self.rttvar = (self.rttvar - self.rttvar / 4).saturating_add(off / 4);
            self.srtt = (self.srtt - self.srtt / 8).saturating_add(nanos / 8).max(1);
        }
    }
}
