// SPDX-License-Identifier: GPL-2.0

//! Loss recovery of the requester: the retry counters, the ACK timeout, the wait after an RNR NAK,
//! the tail loss probe and the windows (IBTA 9.9.2.1). The requester and the completer report
//! events; this decides when to retransmit, and when to give up. They move the cursor.

use super::common::time::{ack_timeout, ack_wait, earlier, rnr_delay};
use super::common::{Attr, Instant, Status};
use super::cwnd::{Acked, Congestion, CongestionControl, Delay, Loss, Outstanding};
use super::pacer::Pacer;
use super::tail_loss::TailLoss;
use super::wire::Psn;

/// The value of `rnr_retry` that stands for no limit.
const RNR_RETRY_INFINITE: u8 = 7;

/// How long the requester waits for a page of its own memory, in nanoseconds: the owner has asked
/// for it. A page that is read from a disk takes several such waits, each of which costs one
/// retransmission.
const PAGE_WAIT_NS: u64 = 200_000;

/// After so many waits without progress each is twice as long as the one before, up to
/// [`MAX_BACKOFF_NS`]: a peer that never posts a receive, or a page that never comes, must not keep
/// both ends busy for ever. A requester whose `rnr_retry` has a limit gives up before.
const MAX_EQUAL_WAITS: u8 = 8;

/// The longest wait that grew, in nanoseconds. One that the peer asked for may be longer.
const MAX_BACKOFF_NS: u64 = 5_000_000;

/// The longest time between two packets that are paced, in nanoseconds: a round trip time that
/// holds waits for a receiver or a page says nothing about the path.
const MAX_PACE_NS: u64 = 10_000_000;

/// The wait after `waits` others without progress; `nanos` is the shortest.
fn backoff(nanos: u64, waits: u8) -> u64 {
    // Ten doublings of the shortest RNR time, 10 us, exceed the limit.
    let doublings = waits.saturating_sub(MAX_EQUAL_WAITS - 1).min(10);
    let grown = nanos.min(MAX_BACKOFF_NS) << doublings;
    grown.min(MAX_BACKOFF_NS).max(nanos)
}

/// A timeout that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// The ACK timeout: all unacknowledged packets are to be retransmitted.
    Ack,
    /// The probe timeout: a packet is to be sent as a tail loss probe.
    Probe,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Recovery<C> {
    /// The cursor went back to `una` and no packet was acknowledged since.
    retransmitting: bool,
    /// `deadline` is the end of a wait that an RNR NAK asked for, or of one for a page.
    rnr_wait: bool,
    /// Retransmissions without progress.
    retries: u8,
    /// RNR NAKs without progress.
    rnr_retries: u8,
    /// Waits for a page without progress.
    page_waits: u8,
    congestion: Congestion<C>,
    pacer: Pacer,
    tail_loss: TailLoss,
    /// When the ACK timeout or the RNR wait ends.
    deadline: Option<Instant>,
}

impl<C: CongestionControl> Recovery<C> {
    /// The state of a connection that has sent nothing.
    pub(super) fn new(congestion: Congestion<C>) -> Self {
        Recovery {
            retransmitting: false,
            rnr_wait: false,
            retries: 0,
            rnr_retries: 0,
            page_waits: 0,
            congestion,
            pacer: Pacer::NEW,
            tail_loss: TailLoss::NEW,
            deadline: None,
        }
    }

    /// The congestion control of such a connection that has the same controllers as this one.
    pub(super) fn congestion_anew(&self) -> Congestion<C> {
        self.congestion.anew()
    }

    /// The congestion window, in request packets.
    #[inline]
    pub(super) fn cwnd(&self) -> u16 {
        self.congestion.cwnd()
    }

    /// The window by which bursts are sized.
    #[inline]
    pub(super) fn burst_cwnd(&self) -> u16 {
        self.congestion.burst_cwnd()
    }

    /// The slow start threshold, in request packets.
    pub(super) fn ssthresh(&self) -> u16 {
        self.congestion.ssthresh()
    }

    /// The smoothed round trip time in nanoseconds; 0 before the first sample.
    pub(super) fn srtt(&self) -> u64 {
        self.tail_loss.srtt()
    }

    /// Retransmissions, and RNR NAKs, without progress.
    pub(super) fn retries(&self) -> (u8, u8) {
        (self.retries, self.rnr_retries)
    }

    /// The probe timeout in nanoseconds; 0 before the first sample of the round trip time.
    pub(super) fn rto(&self) -> u64 {
        self.tail_loss.rto().unwrap_or(0)
    }

    /// How many retransmissions, and how many of those that RNR NAKs ask for, are left before the
    /// QP fails. `None` for no limit of the latter.
    pub(super) fn retries_left(&self, attr: &Attr) -> (u8, Option<u8>) {
        let rnr = attr.rnr_retry.saturating_sub(self.rnr_retries);
        (
            attr.retry_cnt.saturating_sub(self.retries),
            (attr.rnr_retry != RNR_RETRY_INFINITE).then_some(rnr),
        )
    }

    /// The window of outstanding READ responses, in PSNs.
    #[inline]
    pub(super) fn read_window(&self) -> u32 {
        self.congestion.read_window()
    }

    /// How many packets of a READ are asked for at a time.
    #[inline]
    pub(super) fn read_chunk(&self) -> u32 {
        self.congestion.read_chunk()
    }

    /// See [`Congestion::open_windows`].
    #[cfg(test)]
    pub(super) fn open_windows(&mut self, requests: u32, responses: u32) {
        self.congestion.open_windows(requests, responses);
    }

    /// The time of the next timeout, if there is one.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = earlier(self.deadline, self.tail_loss.deadline());
        if self.is_paced() || self.paces_reads() {
            return earlier(deadline, self.pacer.deadline());
        }
        deadline
    }

    /// Whether request packets are paced.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.congestion.is_paced()
    }

    /// Whether the controllers want to know how long single round trips take.
    #[inline]
    pub(super) fn measures(&self) -> bool {
        self.congestion.measures()
    }

    /// Whether READ requests are paced.
    #[inline]
    pub(super) fn paces_reads(&self) -> bool {
        self.congestion.paces_reads()
    }

    /// A READ request for so many response packets is sent.
    #[inline]
    pub(super) fn pace_read(&mut self, now: Instant, packets: u32) {
        if self.paces_reads() {
            self.space_read(now, packets);
        }
    }

    #[cold]
    fn space_read(&mut self, now: Instant, packets: u32) {
        let interval = self.congestion.read_interval(self.tail_loss.srtt());
        let nanos = interval.saturating_mul(packets.into());
        self.pacer.on_sent(now, nanos.min(MAX_PACE_NS));
    }

    /// A request packet is sent, or several if these are not paced.
    #[inline]
    pub(super) fn pace(&mut self, now: Instant) {
        if self.is_paced() {
            self.space(now);
        }
    }

    #[cold]
    fn space(&mut self, now: Instant) {
        let interval = self.congestion.interval(self.tail_loss.srtt());
        self.pacer.on_sent(now, interval.min(MAX_PACE_NS));
    }

    /// Whether a request packet has to wait, when these are paced.
    #[cold]
    pub(super) fn holds_back(&mut self, now: Instant) -> bool {
        self.pacer.holds_back(now)
    }

    /// Whether a sign of a loss is one of a loss that is being repaired already.
    #[inline]
    pub(super) fn is_repairing(&self) -> bool {
        self.retransmitting || self.rnr_wait
    }

    /// Whether an RNR NAK asked for a wait that has not ended. Once it has, returns false and
    /// forgets it.
    #[inline]
    pub(super) fn waits_for_receiver(&mut self, now: Instant) -> bool {
        if !self.rnr_wait {
            return false;
        }
        if self.deadline.is_some_and(|end| now < end) {
            return true;
        }
        self.rnr_wait = false;
        self.deadline = None;
        false
    }

    /// Packets are about to be sent: after a pause the windows are those of a restart.
    #[inline]
    pub(super) fn before_sent(&mut self, now: Instant) {
        if self.deadline.is_none() && self.congestion.restarts() {
            self.congestion.on_first(now, self.tail_loss.rto());
        }
    }

    /// Packets before `end` were sent, for the first time if `fresh`; `asks` if the last one asks
    /// for an acknowledgement.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, attr: &Attr, end: Psn, fresh: bool, asks: bool) {
        if self.deadline.is_none() {
            self.deadline = ack_wait(attr.timeout, self.retries).map(|nanos| now.after(nanos));
        }
        if asks {
            self.tail_loss
                .on_ack_req(now, end, fresh, ack_timeout(attr.timeout));
        }
    }

    /// Packets from `begin` to `end` were sent, and asked for an acknowledgement, or for responses
    /// if `responds`.
    #[cold]
    pub(super) fn watch(&mut self, now: Instant, begin: Psn, end: Psn, responds: bool) {
        self.tail_loss.watch(now, begin, end, responds);
    }

    /// Packets were acknowledged: a round trip may end.
    #[cold]
    fn measure(&mut self, now: Instant, una: Psn) {
        if let Some((nanos, responses)) = self.tail_loss.take_first(now, una) {
            self.congestion.on_delay(Delay { now, nanos }, responses);
        }
    }

    /// Packets were acknowledged, and others are `left`. Restores the retry counters and restarts
    /// the timer (IBTA 9.9.2.1).
    #[inline]
    pub(super) fn on_progress(
        &mut self,
        now: Instant,
        attr: &Attr,
        acked: Acked,
        left: Outstanding,
    ) {
        let more = left.una != left.next;
        self.retries = 0;
        self.rnr_retries = 0;
        self.page_waits = 0;
        self.retransmitting = false;
        self.rnr_wait = false;
        if self.measures() {
            self.measure(now, left.una);
        }
        self.tail_loss
            .on_ack(now, left.una, more, ack_timeout(attr.timeout));
        let rtt = self.tail_loss.srtt();
        self.congestion.on_ack(now, rtt, acked, left);
        self.deadline = if more {
            ack_wait(attr.timeout, 0).map(|nanos| now.after(nanos))
        } else {
            None
        };
    }

    /// A response was kept behind a gap: the responder is there, and neither the ACK timeout nor a
    /// probe is due before it has had its time for the next one.
    #[cold]
    pub(super) fn on_kept(&mut self, now: Instant, attr: &Attr) {
        if self.deadline.is_some() && !self.rnr_wait {
            self.deadline = ack_wait(attr.timeout, self.retries).map(|nanos| now.after(nanos));
        }
        self.tail_loss.on_kept(now, ack_timeout(attr.timeout));
    }

    /// A gap is about to be asked for alone.
    #[cold]
    pub(super) fn on_gap(&mut self) {
        self.tail_loss.on_retransmission();
    }

    /// The packet at `una` is about to be sent again alone: the timers begin anew with it.
    #[cold]
    pub(super) fn on_repair(&mut self) {
        self.stop();
    }

    /// The round trip that is being measured is one in which a packet was lost.
    #[cold]
    pub(super) fn forget_sample(&mut self) {
        self.tail_loss.forget_sample();
    }

    /// Packets were taken back, after which none is `in_flight`, or the last one in flight does not
    /// ask for an acknowledgement (`ack_req_owed`). They may be sent at once.
    #[cold]
    pub(super) fn on_undo(&mut self, in_flight: bool, ack_req_owed: bool) {
        self.pacer = Pacer::NEW;
        if !in_flight && !self.rnr_wait {
            self.deadline = None;
        }
        if !in_flight || ack_req_owed {
            self.tail_loss.on_retransmission();
        }
    }

    /// No packet is in flight any more: stops the timers.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.deadline = None;
        self.tail_loss.on_retransmission();
    }

    /// Counts a retry.
    ///
    /// # Errors
    ///
    /// RetryExc if the counter does not allow another one (IBTA 9.9.2.1).
    #[cold]
    pub(super) fn count_retry(&mut self, attr: &Attr) -> Result<(), Status> {
        if self.retries >= attr.retry_cnt {
            return Err(Status::RetryExc);
        }
        self.retries = self.retries.saturating_add(1);
        Ok(())
    }

    /// The cursor has gone back to `una`.
    #[cold]
    pub(super) fn on_go_back(&mut self) {
        self.stop();
        self.retransmitting = true;
    }

    /// The responder reported the packet at the cursor as missing: further reports are of the same
    /// loss, until a packet is acknowledged.
    #[cold]
    pub(super) fn on_known_loss(&mut self) {
        self.retransmitting = true;
    }

    /// The cursor has gone back to `una` for a tail loss probe: the ACK timeout runs on.
    #[cold]
    pub(super) fn on_probe_go_back(&mut self) {
        self.tail_loss.on_retransmission();
        self.retransmitting = true;
    }

    /// Whether a probe must begin at `una`, since an earlier attempt brought no response.
    #[cold]
    pub(super) fn probes_from_una(&self) -> bool {
        self.retransmitting || self.tail_loss.was_in_vain()
    }

    /// The responder reported a lost request packet (PSN sequence error NAK).
    #[cold]
    pub(super) fn on_loss(&mut self, loss: Loss) {
        self.congestion.on_loss(loss);
    }

    /// The response to a READ or atomic was lost.
    #[cold]
    pub(super) fn on_response_loss(&mut self, loss: Loss) {
        self.congestion.on_response_loss(loss);
    }

    /// Whether an RNR NAK is a duplicate of the one that asked for the current wait.
    #[cold]
    pub(super) fn is_in_rnr_wait(&self) -> bool {
        self.rnr_wait
    }

    /// Counts an RNR NAK, and waits at least as long as its timer code says (IBTA 9.7.5.2.8).
    ///
    /// # Errors
    ///
    /// RnrRetryExc if the counter does not allow another one.
    #[cold]
    pub(super) fn on_rnr_nak(&mut self, now: Instant, attr: &Attr, code: u8) -> Result<(), Status> {
        if attr.rnr_retry != RNR_RETRY_INFINITE && self.rnr_retries >= attr.rnr_retry {
            return Err(Status::RnrRetryExc);
        }
        self.stop();
        self.retransmitting = false;
        self.rnr_wait = true;
        self.deadline = Some(now.after(backoff(rnr_delay(code), self.rnr_retries)));
        self.rnr_retries = self.rnr_retries.saturating_add(1);
        Ok(())
    }

    /// A response found no page: the cursor has gone back to `una`, and waits. Unlike a loss this
    /// counts as no retry, and needs no ACK timeout, which may be off.
    #[cold]
    pub(super) fn on_missing_page(&mut self, now: Instant) {
        // Responses after that one are on their way. They show no loss, even when the wait is over.
        self.on_go_back();
        self.rnr_wait = true;
        self.deadline = Some(now.after(backoff(PAGE_WAIT_NS, self.page_waits)));
        self.page_waits = self.page_waits.saturating_add(1);
    }

    /// The timeout that has expired by `now`, if one has. Each is reported once. The end of an RNR
    /// wait is not reported: the requester polls for it.
    #[inline]
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Expired> {
        self.pacer.handle_timeout(now);
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return self.tail_loss.take_due(now).then_some(Expired::Probe);
        }
        self.deadline = None;
        if self.rnr_wait {
            self.rnr_wait = false;
            return None;
        }
        Some(Expired::Ack)
    }

    /// The retransmission that the ACK timeout asked for has begun. The packets in flight have long
    /// arrived or are lost, or the receiver is slow: the next sign of a loss is a new one. It does
    /// not wait, since retries are spaced by the timeout already. Gets what was in flight.
    #[cold]
    pub(super) fn on_ack_timeout(&mut self, requests: Loss, responses: Loss) {
        self.retransmitting = false;
        self.pacer = Pacer::NEW;
        self.congestion.on_timeout(requests, responses);
    }
}
