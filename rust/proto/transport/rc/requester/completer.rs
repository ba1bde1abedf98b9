// SPDX-License-Identifier: GPL-2.0

//! The completer: the part of the requester that handles responses and timeouts
//! (IBTA 9.7.5, 9.7.6, 9.7.7).

use super::common::{
    Attr, DropReason, Instant, PlaceError, Request, RequestQueue, RequesterOps, SendOp, Status,
    Verdict,
};
use super::cwnd::{Acked, CongestionControl, Loss, Outstanding};
use super::in_flight::InFlight;
use super::recovery::Expired;
use super::tally::RequesterEvent;
use super::wire::{AethRepr, Kind, NakCode, PacketRepr, Position, Psn, Syndrome};
use super::{Cursor, Requester};

/// Whether all packets before a PSN could be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Yes; `una` is that PSN now.
    All,
    /// No: the response to a READ or atomic before it is missing.
    Short,
}

impl<C: CongestionControl> Requester<C> {
    /// How many middle responses may be taken at a time; `psn` is that of the first.
    #[inline]
    pub(in super::super) fn max_segments<Q: RequestQueue>(&self, psn: Psn, q: &Q) -> u32 {
        let read = q
            .get(self.una.n)
            .filter(|request| psn == self.una.psn && request.op == SendOp::Read);
        read.map_or(1, |request| {
            let index = psn.offset_from(request.first_psn);
            let middle = request
                .chunk_end(index)
                .saturating_sub(1)
                .saturating_sub(index);
            if self.kept.is_active() {
                return self.kept.missing_run(psn, middle);
            }
            middle
        })
    }

    /// Takes a response packet with `payload_len` bytes of payload, or `segments` of them, no more
    /// than [`Requester::max_segments`] says.
    #[inline]
    pub(in super::super) fn handle_response<E: RequestQueue + RequesterOps>(
        &mut self,
        now: Instant,
        attr: &Attr,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict {
        let psn = pkt.bth.psn;
        // IBTA 9.7.6.1, ghost acknowledgements: only PSNs that were sent and not yet acknowledged
        // mean anything.
        if self.offset(psn) >= self.offset(self.max) || self.has_failed() {
            return Verdict::Dropped(DropReason::Ghost);
        }
        let info = pkt.bth.opcode.info();
        let aeth = pkt.ext.aeth();
        if info.kind == Kind::Ack {
            return match aeth {
                Some(aeth) => self.handle_ack(now, attr, psn, aeth, env),
                None => Verdict::Dropped(DropReason::BadResponse),
            };
        }
        // Responses with data are positive; a middle one has no AETH at all.
        if aeth.is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack { .. })) {
            return Verdict::Dropped(DropReason::BadResponse);
        }
        // IBTA 9.7.5.1.1: a response acknowledges all requests before its own.
        let behind_gap = self.acknowledge(now, attr, psn, env) == Reach::Short;
        let at = match behind_gap {
            true => match self.place_behind_gap(now, attr, pkt, env) {
                Ok(at) => at,
                Err(verdict) => return verdict,
            },
            false => self.una,
        };
        let Some(&request) = env.get(at.n) else {
            return Verdict::Dropped(DropReason::BadResponse);
        };
        let result = if info.kind == Kind::AtomicAck {
            place_atomic(&request, at.n, pkt, env)
        } else {
            self.place_read(at, &request, info.position, payload_len, attr, env)
        };
        match result {
            Ok(()) if behind_gap => self.keep_response(now, attr, at.psn, env),
            Ok(()) => {
                let acked = self.take_responses(&request, segments.into(), env);
                if self.kept.is_active() {
                    return self.close_gap(now, attr, segments, acked, env);
                }
                self.progress(now, attr, acked);
                Verdict::Accepted
            }
            Err(PlaceError::NotPresent) => self.page_missing(now),
            // The request fails in its turn, if the response is the same then.
            Err(PlaceError::Failed(_)) if behind_gap => self.implied_nak(now, attr),
            Err(PlaceError::Failed(status)) => {
                self.fail(status);
                Verdict::Dropped(match status {
                    Status::BadResp => DropReason::BadResponse,
                    _ => DropReason::Unplaceable,
                })
            }
        }
    }

    /// Checks and places the payload of the READ responses from `at` on, which may also be that to
    /// an ATOMIC WRITE or a FLUSH. The offset follows from the PSN alone. It does not matter how
    /// often the READ was resumed, and from where.
    #[inline]
    fn place_read<E: RequestQueue + RequesterOps>(
        &self,
        at: Cursor,
        request: &Request,
        position: Position,
        payload_len: u32,
        attr: &Attr,
        env: &mut E,
    ) -> Result<(), PlaceError> {
        if request.op != SendOp::Read {
            return Ok(check_empty_response(request, position, payload_len)?);
        }
        let index = at.psn.offset_from(request.first_psn);
        let offset = attr.pmtu.offset(index);
        let rest = request.len.saturating_sub(offset);
        // IBTA 9.7.6.1: first and middle responses are full, the last one has the remaining bytes.
        let ends = index.wrapping_add(1) == request.chunk_end(index);
        let want = rest.min(attr.pmtu.bytes());
        let ends_wrong = ends != position.is_end() && (ends || !self.kept.was_asked(at.psn));
        // A message cannot begin with a middle or last packet.
        let starts_wrong = index == request.chunk_start(index) && !position.is_start();
        if ends_wrong || payload_len != want || starts_wrong {
            return Err(Status::BadResp.into());
        }
        if payload_len > 0 {
            env.place(at.n, offset)?;
        }
        if offset.saturating_add(payload_len) < request.len || at.psn != self.una.psn {
            return Ok(());
        }
        Ok(env.finish_read(at.n)?)
    }

    /// `segments` responses to `request`, from PSN `una` on, were taken. Gives the READ chunk that
    /// this completed, if it did.
    #[inline]
    pub(super) fn take_responses<Q: RequestQueue>(
        &mut self,
        request: &Request,
        segments: u32,
        q: &Q,
    ) -> Acked {
        let was_at_cursor = self.cursor.psn == self.una.psn;
        let index = self.una.psn.offset_from(request.first_psn);
        let after = index.saturating_add(segments);
        self.una.psn = self.una.psn.add(segments);
        let mut acked = Acked::default();
        if after >= request.chunk_end(index) && !was_at_cursor {
            self.in_flight.remove_rd_atomic();
            acked.requests = 1;
            acked.responses = after.saturating_sub(request.chunk_start(index));
        }
        if after >= request.psns {
            self.leave_una(q);
        }
        if was_at_cursor {
            // This response belongs to a transmission before the cursor went back; no packet is in
            // flight.
            self.cursor = self.una;
        }
        acked
    }

    /// Takes an ACK or NAK.
    #[inline]
    fn handle_ack<E: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        psn: Psn,
        aeth: AethRepr,
        env: &mut E,
    ) -> Verdict {
        match aeth.syndrome {
            // IBTA 9.7.5.1.2: an ACK is about everything up to and with its PSN.
            Syndrome::Ack { .. } => match self.acknowledge(now, attr, psn.next(), env) {
                Reach::All => {
                    if self.selective.is_active() {
                        self.check_repair();
                    }
                    Verdict::Accepted
                }
                Reach::Short => self.handle_ack_behind_gap(now, attr, psn.next(), env),
            },
            // IBTA 9.7.5.2: a NAK acknowledges everything before its PSN.
            Syndrome::RnrNak { timer } => match self.acknowledge(now, attr, psn, env) {
                Reach::All => self.not_ready(now, attr, timer.get()),
                Reach::Short => self.implied_nak(now, attr),
            },
            Syndrome::Nak { code } => match self.acknowledge(now, attr, psn, env) {
                Reach::All => self.refused(now, attr, code),
                Reach::Short => self.implied_nak(now, attr),
            },
            // IBTA 9.7.5.2.1: reserved syndromes are ignored.
            Syndrome::Reserved(_) => Verdict::Dropped(DropReason::BadResponse),
        }
    }

    /// Acknowledges every PSN before `end`, but stops at a READ or atomic. Visits only the requests
    /// that complete, and the one where it stops.
    #[inline]
    pub(super) fn acknowledge<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        end: Psn,
        q: &Q,
    ) -> Reach {
        if end == self.una.psn {
            return Reach::All;
        }
        let before = self.una.psn;
        let mut reach = Reach::All;
        while self.una.psn != end {
            let Some(request) = q.get(self.una.n) else {
                reach = Reach::Short;
                break;
            };
            if request.op.wants_response() {
                reach = Reach::Short;
                break;
            }
            let request_end = request.end_psn();
            if self.offset(request_end) > self.offset(end) {
                self.una.psn = end;
            } else {
                self.una.psn = request_end;
                self.leave_una(q);
            }
        }
        let acked = self.una.psn.offset_from(before);
        if acked > 0 {
            if self.selective.is_active() {
                self.settle_repair();
            }
            self.leave_behind(before, acked);
            let acked = Acked {
                requests: acked,
                responses: 0,
            };
            self.progress(now, attr, acked);
        }
        reach
    }

    /// `acked` PSNs from `before` on, all of SENDs and WRITEs, were acknowledged: keeps the cursor
    /// and its counts in step.
    #[inline]
    fn leave_behind(&mut self, before: Psn, acked: u32) {
        if acked > self.cursor.psn.offset_from(before) {
            // The packets about to be retransmitted had arrived the first time.
            self.rewind();
            self.recovery.stop();
        } else {
            let acked = u16::try_from(acked).unwrap_or(u16::MAX);
            self.in_flight.remove(acked);
        }
    }

    /// A packet was acknowledged (IBTA 9.9.2.1): restores the retry counters and restarts the
    /// timer.
    #[inline]
    pub(super) fn progress(&mut self, now: Instant, attr: &Attr, acked: Acked) {
        let left = Outstanding {
            una: self.una.psn,
            next: self.cursor.psn,
            packets: self.in_flight.packets(),
            rd_atomic: self.in_flight.rd_atomic(),
        };
        self.recovery.on_progress(now, attr, acked, left);
        if left.una == left.next {
            self.ack_req.clear();
        }
    }

    /// Puts the cursor back to the oldest unacknowledged packet.
    #[inline]
    fn rewind(&mut self) {
        self.cursor = self.una;
        self.in_flight = InFlight::NONE;
        self.ack_req.rewind();
        if self.kept.is_active() {
            self.kept.clear();
        }
        if self.selective.is_active() {
            self.selective.clear();
        }
    }

    /// Retransmits all unacknowledged packets, if the retry counter allows (IBTA 9.9.2.1).
    #[cold]
    pub(super) fn retry(&mut self, attr: &Attr) {
        match self.recovery.count_retry(attr) {
            Ok(()) => self.go_back(),
            Err(status) => self.fail(status),
        }
    }

    #[cold]
    pub(super) fn go_back(&mut self) {
        self.rewind();
        self.recovery.on_go_back();
    }

    /// Sends a tail loss probe (see `tail_loss`): a new packet, or the last one again if no new one
    /// may be sent. All packets from `una` on if the last one would not help: the response to a
    /// READ or atomic may be lost, or the responder has sent a NAK and waits for `una`. That NAK
    /// may be lost, and the responder does not repeat it, so the second probe goes back to `una` as
    /// well. To go back counts as a loss, as in RFC 8985 7.4.
    #[cold]
    fn send_probe<Q: RequestQueue>(&mut self, now: Instant, q: &Q) {
        let response = |request: &Request| request.op.wants_response();
        let waits_for_first = self.recovery.probes_from_una() || self.selective.is_repairing();
        let first_has_response = q.get(self.una.n).is_some_and(response);
        if waits_for_first || first_has_response || self.ends_with_response(q) {
            if first_has_response {
                self.recovery.on_response_loss(self.response_loss(now));
            } else {
                self.recovery.on_loss(self.request_loss(now));
            }
            self.rewind();
            self.recovery.on_probe_go_back();
        } else {
            self.ack_req.owe();
        }
    }

    /// A loss of request packets. A NAK acknowledges the first ones of those that were in flight,
    /// so the window tells better how many there were.
    #[cold]
    pub(super) fn request_loss(&self, now: Instant) -> Loss {
        let in_flight = self.recovery.cwnd().into();
        Loss { now, in_flight }
    }

    /// A loss of response packets. Those that are kept were in flight with it (RFC 5681 4.3).
    #[cold]
    pub(super) fn response_loss(&self, now: Instant) -> Loss {
        let in_flight = self.offset(self.cursor.psn);
        Loss { now, in_flight }
    }

    /// The response to the READ or atomic at `una` was lost, since a response to a later request
    /// came (IBTA 9.7.6.1, implied NAK). The packets in flight bring more such responses; the
    /// requester goes back once for all of them.
    #[cold]
    pub(super) fn implied_nak(&mut self, now: Instant, attr: &Attr) -> Verdict {
        if !self.recovery.is_repairing() {
            self.retry_response(now, attr);
        }
        Verdict::Dropped(DropReason::Gap)
    }

    /// Retransmits all unacknowledged packets, as the response at `una` was lost. If it was asked
    /// for already, that was the retry.
    #[cold]
    pub(super) fn retry_response(&mut self, now: Instant, attr: &Attr) {
        if self.kept.has_asked() {
            self.go_back();
            return;
        }
        if !self.kept.is_known_loss(self.una.psn) {
            self.recovery.on_response_loss(self.response_loss(now));
        }
        self.retry(attr);
    }

    /// The responder was not ready for the packet with PSN `una` (IBTA 9.7.5.2.8).
    #[cold]
    fn not_ready(&mut self, now: Instant, attr: &Attr, code: u8) -> Verdict {
        if self.recovery.is_in_rnr_wait() {
            // The network duplicated the NAK.
            return Verdict::Dropped(DropReason::RepeatedNak);
        }
        self.tally.note(RequesterEvent::RnrNak);
        match self.recovery.on_rnr_nak(now, attr, code) {
            Ok(()) => self.rewind(),
            Err(status) => self.fail(status),
        }
        Verdict::Accepted
    }

    /// The response at `una` found no page: it is asked for again soon, by this side itself, which
    /// knows that nothing was lost.
    #[cold]
    fn page_missing(&mut self, now: Instant) -> Verdict {
        if !self.recovery.is_in_rnr_wait() {
            self.recovery.on_missing_page(now);
            self.rewind();
        }
        Verdict::Dropped(DropReason::NotPresent)
    }

    /// The packet with PSN `una` was refused (IBTA 9.7.5.2, Table 46; IBTA 9.9.2 for the
    /// consequences).
    #[cold]
    fn refused(&mut self, now: Instant, attr: &Attr, code: NakCode) -> Verdict {
        match code {
            NakCode::PsnSequence => return self.on_sequence_nak(now, attr),
            NakCode::InvalidRequest => {
                self.tally.note(RequesterEvent::InvalidRequestNak);
                self.fail(Status::RemInvReq);
            }
            NakCode::RemoteAccess => {
                self.tally.note(RequesterEvent::AccessNak);
                self.fail(Status::RemAccess);
            }
            NakCode::RemoteOperational => {
                self.tally.note(RequesterEvent::OperationalNak);
                self.fail(Status::RemOp);
            }
            // This code is not for this service. It is ignored like the reserved ones.
            NakCode::InvalidRdRequest => return Verdict::Dropped(DropReason::BadResponse),
        }
        Verdict::Accepted
    }

    /// The time is `now`; acts if the deadline has passed (IBTA 9.7.6.1.3).
    #[inline]
    pub(in super::super) fn handle_timeout<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        q: &Q,
    ) {
        self.autocork.handle_timeout(now, self.started.n, q);
        match self.recovery.take_expired(now) {
            None => {}
            Some(Expired::Probe) => self.send_probe(now, q),
            Some(Expired::Ack) => {
                self.tally.note(RequesterEvent::AckTimeout);
                let (requests, responses) = (self.request_loss(now), self.response_loss(now));
                self.retry(attr);
                self.recovery.on_ack_timeout(requests, responses);
            }
        }
    }
}

/// Checks the response to an ATOMIC WRITE or a FLUSH: a READ response of one packet without payload
/// (IBTA annex A19.4). For another request it is no response.
#[cold]
fn check_empty_response(
    request: &Request,
    position: Position,
    payload_len: u32,
) -> Result<(), Status> {
    let is_asked_for = matches!(request.op, SendOp::AtomicWrite | SendOp::Flush { .. });
    if !is_asked_for || position != Position::Only || payload_len != 0 {
        return Err(Status::BadResp);
    }
    Ok(())
}

/// Checks and stores the response to the atomic `request`.
#[inline]
fn place_atomic<E: RequesterOps>(
    request: &Request,
    n: u32,
    pkt: &PacketRepr,
    env: &mut E,
) -> Result<(), PlaceError> {
    let is_atomic = matches!(
        request.op,
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }
    );
    match pkt.ext.atomic_ack() {
        Some(ack) if is_atomic => env.place_atomic(n, ack.original),
        _ => Err(Status::BadResp.into()),
    }
}
