// SPDX-License-Identifier: GPL-2.0

//! The requester of a reliable connection: which request packet goes out next (IBTA 9.7.2, 9.7.3).
//!
//! Four positions describe all outstanding requests without a search:
//!
//! ```text
//!   head      una            cursor        started       tail
//!    |  done   |  in flight    |  to resend   |  not begun  |
//! ```
//!
//! `una` is the oldest unacknowledged PSN, `cursor` the packet to send next; both know their
//! request. Every recovery goes the same way: the cursor returns to `una`. `completer` moves these
//! positions on responses and timeouts; `undo` takes back packets that could not be sent. Requests
//! that send nothing are in `local`: `una` and `cursor` never stand at one that was carried out.
//!
//! The rest of the state belongs to the parts that decide by it: `recovery` when to send again,
//! with the windows in `cwnd` and the round trip time in `tail_loss`; `ack_req` which packets ask;
//! `kept` what came behind a `gap`; `selective` what is sent again alone.

mod ack_req;
mod completer;
mod corked;
pub mod cwnd;
mod details;
mod gap;
mod hold_back;
mod in_flight;
mod kept;
mod local;
mod pacer;
pub mod read_chunk;
mod recovery;
mod repair;
mod request_packet;
mod selective;
pub mod snapshot;
mod sws;
pub mod tail_loss;
mod tally;
mod undo;

use super::common::autocork::Autocork;
use super::common::message_packet::message_packet;
use super::common::time::earlier;
use super::common::{
    Attr, Instant, Request, RequestQueue, SendCompletion, SendOp, Status, Transmit,
};
use super::wire::{Psn, Service};
use super::{common, wire};
use ack_req::AckReq;
use cwnd::{Congestion, CongestionControl};
pub use details::RequesterDetails;
use in_flight::InFlight;
use kept::Kept;
use recovery::Recovery;
use request_packet::rd_atomic_request_packet;
use selective::Selective;
use sws::little;
use tally::Tally;
pub use tally::{EventCounts, RequesterEvent};

/// How many PSNs may be outstanding, responses to READs included: half of the number space, so that
/// old and new PSNs can be told apart (IBTA 9.7.3.1). One READ of 2^31 bytes at a path MTU of 256
/// needs them all.
const SPAN: u32 = Psn::HALF;

/// The position of a packet in the send queue.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// The request.
    n: u32,
    /// The PSN, one of the request's.
    psn: Psn,
}

/// The send side of a connection.
#[derive(Debug)]
pub struct Requester<C> {
    /// The oldest request whose completion was not returned yet.
    head: u32,
    /// The oldest unacknowledged PSN and its request.
    una: Cursor,
    /// The packet to send next. Never before `una`.
    cursor: Cursor,
    /// The first request that has not begun and has no PSNs yet, and the PSN that it will begin
    /// with.
    started: Cursor,
    /// One past the highest PSN that was sent: a valid response has a PSN in `una .. max`.
    max: Psn,
    /// Local operations that were carried out, between `una` and `started`.
    locals: u32,
    in_flight: InFlight,
    ack_req: AckReq,
    kept: Kept,
    selective: Selective,
    recovery: Recovery<C>,
    autocork: Autocork,
    tally: Tally,
    /// The status of request `una.n`, which has failed, until its completion is returned.
    failed: Option<Status>,
    /// See [`Requester::ask_often`].
    asks_often: bool,
}

impl<C: CongestionControl> Requester<C> {
    /// A requester that has sent nothing and will begin with `psn`.
    pub(super) fn new(psn: Psn) -> Self {
        Self::controlled(psn, Congestion::new())
    }

    /// The same with these controllers.
    pub(super) fn controlled(psn: Psn, congestion: Congestion<C>) -> Self {
        let begin = Cursor { n: 0, psn };
        Requester {
            head: 0,
            una: begin,
            cursor: begin,
            started: begin,
            max: psn,
            locals: 0,
            in_flight: InFlight::NONE,
            ack_req: match congestion.measures() {
                true => AckReq::OFTEN,
                false => AckReq::NEW,
            },
            kept: Kept::NEW,
            selective: Selective::NEW,
            recovery: Recovery::new(congestion),
            autocork: Autocork::NEW,
            tally: Tally::NEW,
            failed: None,
            asks_often: false,
        }
    }

    /// The congestion control of such a requester that has the same controllers as this one.
    pub(super) fn congestion_anew(&self) -> Congestion<C> {
        self.recovery.congestion_anew()
    }

    /// So many request packets, and packets of READ responses, were acknowledged.
    #[cfg(test)]
    pub(super) fn open_windows(&mut self, requests: u32, responses: u32) {
        self.recovery.open_windows(requests, responses);
    }

    /// The PSN that the next new packet will have, as a query of the QP shows it.
    #[inline]
    pub fn next_psn(&self) -> Psn {
        self.max
    }

    /// The first request that has not begun.
    #[inline]
    pub(super) fn next_request(&self) -> u32 {
        self.started.n
    }

    /// The oldest request that is not acknowledged.
    #[inline]
    pub(super) fn first_unacknowledged(&self) -> u32 {
        self.una.n
    }

    /// The request whose completion is the next one.
    #[inline]
    pub(super) fn next_completion(&self) -> u32 {
        self.head
    }

    /// Whether every request that was begun is complete.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.una.n == self.started.n
    }

    /// Whether requests succeeded whose completions were not returned yet.
    #[inline]
    pub fn has_completion(&self) -> bool {
        self.head != self.una.n
    }

    /// Whether a request has failed and takes the QP to the error state.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Request `una.n` has failed; the caller moves the QP to the error state.
    #[inline]
    fn fail(&mut self, status: Status) {
        self.failed = Some(status);
        self.recovery.stop();
    }

    /// The time of the next timeout, if there is one.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        earlier(self.recovery.deadline(), self.autocork.deadline())
    }

    /// Whether packets are left to be sent, now or later.
    #[inline]
    pub(super) fn may_transmit<Q: RequestQueue>(&self, q: &Q) -> bool {
        self.cursor.n != q.tail() || self.ack_req.is_owed() || self.resends_alone()
    }

    /// The next request packet, if one may be sent now, or up to `max_segments` segments. With
    /// `draining` no new request begins.
    #[inline]
    pub(super) fn poll<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        draining: bool,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit> {
        if self.recovery.waits_for_receiver(now) {
            self.autocork.flush();
            return None;
        }
        if self.kept.is_due() {
            return self.send_gap_request(now, attr, q);
        }
        if self.selective.is_due() {
            if let Some(transmit) = self.send_repair(now, attr, q) {
                return Some(transmit);
            }
        }
        if self.corks(now, draining, q) {
            return None;
        }
        if self.ack_req.take_first() {
            if let Some(transmit) = self.request_ack(now, attr, q) {
                return Some(transmit);
            }
        }
        if (self.recovery.is_paced() || self.recovery.paces_reads()) && self.holds_back(now, q) {
            return self.request_ack(now, attr, q);
        }
        if max_segments > 1 && self.avoids_sws(q) {
            return None;
        }
        if !self.may_send(attr, draining, q) {
            return self.request_ack(now, attr, q);
        }
        self.send(now, attr, draining, Some(max_segments), q)
    }

    /// Whether the packet at the cursor may be sent now. Fails the request if it can never be sent.
    #[inline]
    fn may_send<Q: RequestQueue>(&mut self, attr: &Attr, draining: bool, q: &Q) -> bool {
        let n = self.cursor.n;
        let fresh = n == self.started.n;
        if fresh && (draining || n == q.tail()) {
            return false;
        }
        let Some(request) = q.get(n) else {
            return false;
        };
        let valid = if fresh {
            request.validate(attr)
        } else {
            request.local_error.map_or(Ok(()), Err)
        };
        if let Err(status) = valid {
            // The request fails once all requests before it are complete.
            if self.una.n == n {
                self.fail(status);
            }
            return false;
        }
        if request.op.is_local() {
            return false;
        }
        let starts = fresh || self.cursor.psn == request.first_psn;
        self.has_room(request, attr, starts, fresh, 0)
    }

    /// No other packet can be sent now. If the last packet did not ask for an acknowledgement,
    /// because more packets were expected to follow, sends it again and asks: the requests that
    /// wait for it must not wait for the timeout.
    #[cold]
    fn request_ack<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        q: &mut Q,
    ) -> Option<Transmit> {
        let asks = self.ack_req.is_owed() && !self.selective.is_repairing();
        if !asks || self.in_flight.packets() == 0 || self.has_failed() {
            return None;
        }
        self.ack_req.clear();
        self.cursor = Cursor {
            n: self.request_before(q),
            psn: self.cursor.psn.prev(),
        };
        self.in_flight.remove(1);
        let transmit = self.send(now, attr, true, None, q);
        self.ack_req.on_sent_again();
        transmit
    }

    /// Sends the packet at the cursor, or up to `max_segments` segments from there, and moves the
    /// cursor past them. Without `max_segments` it is one packet that asks for an acknowledgement.
    #[inline]
    fn send<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        draining: bool,
        max_segments: Option<u16>,
        q: &mut Q,
    ) -> Option<Transmit> {
        self.recovery.before_sent(now);
        let Cursor { n, psn } = self.cursor;
        let request = q.get_mut(n)?;
        if n == self.started.n {
            request.start(psn, attr.pmtu);
            request.chunk = self.recovery.read_chunk();
            self.started = Cursor {
                n: n.wrapping_add(1),
                psn: request.end_psn(),
            };
        } else if let Some(chunk) = self.new_chunk(request, self.cursor) {
            request.resize(psn.offset_from(request.first_psn), chunk);
        }
        let request = *request;
        let index = psn.offset_from(request.first_psn);
        let transmit = if request.op.wants_response() {
            let end = request.chunk_end(index);
            self.cursor.psn = request.first_psn.add(end);
            if request.op == SendOp::Read {
                self.recovery.pace_read(now, end.saturating_sub(index));
            }
            self.ack_req.on_sent(1, true);
            self.in_flight.add_rd_atomic();
            rd_atomic_request_packet(&request, n, index, end, attr)
        } else {
            let segments = self.segment_count(&request, index, max_segments.unwrap_or(1));
            self.cursor.psn = psn.add(segments.into());
            let ends = index.wrapping_add(1) >= request.psns;
            let ask = max_segments.is_none() || self.wants_ack(segments, ends, attr, draining, q);
            self.recovery.pace(now);
            self.ack_req.on_sent(segments, ask);
            self.in_flight.add(segments);
            message_packet(Service::Rc, &request, n, index, segments, ask, attr)
        };
        if self.cursor.psn == request.end_psn() {
            self.cursor.n = self.after(n, q);
        }
        if psn != self.max {
            self.tally
                .on_sent_again(psn, self.cursor.psn, transmit.segments, self.max);
        }
        let fresh = self.offset(self.cursor.psn) > self.offset(self.max);
        if fresh {
            self.max = self.cursor.psn;
        }
        self.recovery
            .on_sent(now, attr, self.cursor.psn, fresh, !self.ack_req.is_owed());
        if self.recovery.measures() {
            let responds = request.op.wants_response();
            self.recovery.watch(now, psn, self.cursor.psn, responds);
        }
        Some(transmit)
    }

    /// Whether sending `segments` packets leaves little room in the window.
    #[inline]
    fn takes_most(&self, segments: u16) -> bool {
        let cwnd = self.recovery.cwnd();
        let much = cwnd.saturating_sub(little(self.recovery.burst_cwnd()));
        let packets = self.in_flight.packets();
        packets <= much && packets.saturating_add(segments) > much
    }

    /// How many packets of `request`, from index `index` on, are sent as segments: only middle
    /// packets, and no more than `max_segments`, than the window admits, or than may be sent before
    /// one asks for an acknowledgement.
    #[inline]
    fn segment_count(&self, request: &Request, index: u32, max_segments: u16) -> u16 {
        let middle = request.psns.saturating_sub(1).saturating_sub(index);
        if index == 0 || middle <= 1 || self.recovery.is_paced() {
            return 1;
        }
        let span = SPAN.saturating_sub(self.offset(self.cursor.psn));
        let max_segments = max_segments
            .min(
                self.recovery
                    .cwnd()
                    .saturating_sub(self.in_flight.packets()),
            )
            .min(self.ack_req.left(self.recovery.burst_cwnd()))
            .max(1);
        u32::from(max_segments).min(middle).min(span).max(1) as u16
    }

    /// Whether the last of the `segments` packets about to be sent asks for an acknowledgement:
    /// when many before it did not, and when no packet may follow. `ends` says whether it ends its
    /// message.
    #[inline]
    fn wants_ack<Q: RequestQueue>(
        &self,
        segments: u16,
        ends: bool,
        attr: &Attr,
        draining: bool,
        q: &Q,
    ) -> bool {
        if self.ack_req.is_due(segments, self.recovery.burst_cwnd())
            || self.in_flight.packets().saturating_add(segments) >= self.recovery.cwnd()
            || segments > 1 && self.takes_most(segments)
            || self.recovery.is_paced()
            || self.asks_often
        {
            return true;
        }
        ends && !self.more_follows(attr, draining, q)
    }

    /// Whether the request after the one that the cursor just left can send at once.
    #[inline]
    fn more_follows<Q: RequestQueue>(&self, attr: &Attr, draining: bool, q: &Q) -> bool {
        let next = self.cursor.n.wrapping_add(1);
        let fresh = next == self.started.n;
        if fresh && (draining || next == q.tail()) {
            return false;
        }
        q.get(next).is_some_and(|request| {
            let valid = if fresh {
                request.validate(attr).is_ok()
            } else {
                request.local_error.is_none()
            };
            valid && !request.op.is_local() && self.has_room(request, attr, true, fresh, 1)
        })
    }

    /// The distance of `psn` from the oldest unacknowledged PSN.
    #[inline]
    fn offset(&self, psn: Psn) -> u32 {
        psn.offset_from(self.una.psn)
    }

    /// The next completion, in the order of posting. With `flush` the requests that are left in the
    /// queue are flushed (IBTA 10.3.1, 11.6.2: error state).
    #[inline]
    pub(super) fn poll_completion<Q: RequestQueue>(
        &mut self,
        flush: bool,
        q: &mut Q,
    ) -> Option<SendCompletion> {
        let n = self.head;
        if n != self.una.n {
            self.head = n.wrapping_add(1);
            let (byte_len, signaled) = q
                .get(n)
                .map_or((0, false), |request| (request.len, request.signaled));
            return Some(SendCompletion {
                n,
                status: Status::Success,
                byte_len,
                signaled,
            });
        }
        let status = match self.failed.take() {
            Some(status) => status,
            None if flush && n != q.tail() => Status::WrFlush,
            None => return None,
        };
        self.head = n.wrapping_add(1);
        self.una.n = self.head;
        Some(SendCompletion {
            n,
            status,
            byte_len: 0,
            signaled: true,
        })
    }
}
