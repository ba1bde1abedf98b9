// SPDX-License-Identifier: GPL-2.0

//! Packets that wait: for room in the windows, for their time, as they are paced (`pacer.rs`), or
//! for more room than there is, so that super-packets stay long.

use super::common::{Attr, Instant, Request, RequestQueue, SendOp};
use super::cwnd::CongestionControl;
use super::sws::little;
use super::{Cursor, Requester, SPAN};

/// Whether the packets of `request` are those of a message.
fn is_message(request: &Request) -> bool {
    !request.op.wants_response() && !request.op.is_local()
}

impl<C: CongestionControl> Requester<C> {
    /// Whether the packet at the cursor has to wait, when packets are paced: those of messages, or
    /// READ requests, for whose responses they ask. A READ is asked for again without a wait: the
    /// peer may have got nothing else to answer.
    #[cold]
    pub(super) fn holds_back<Q: RequestQueue>(&mut self, now: Instant, q: &Q) -> bool {
        let n = self.cursor.n;
        if n == q.tail() || self.in_flight.packets() >= self.recovery.cwnd() {
            return false;
        }
        let paced = |request: &Request| match request.op {
            SendOp::Read => self.recovery.paces_reads() && self.cursor.psn == self.max,
            _ => self.recovery.is_paced() && is_message(request),
        };
        q.get(n).is_some_and(paced) && self.recovery.holds_back(now)
    }

    /// Whether the last packet of each burst asks for an acknowledgement, as the next burst may be
    /// far.
    #[inline]
    pub(in super::super) fn ask_often(&mut self, often: bool) {
        self.asks_often = often;
    }

    /// Whether the next packet, if one may be sent, has payload.
    #[cold]
    pub(in super::super) fn sends_payload_next<Q: RequestQueue>(&self, q: &Q) -> bool {
        if self.kept.is_due() {
            return false;
        }
        if self.selective.is_due() || self.ack_req.is_owed() {
            return true;
        }
        if self.in_flight.packets() >= self.recovery.cwnd() {
            return false;
        }
        let payload = |request: &Request| is_message(request) || request.op == SendOp::AtomicWrite;
        q.get(self.cursor.n).is_some_and(payload)
    }

    /// Silly window syndrome avoidance (as in RFC 9293 3.8.6.2.1): with little room left in the
    /// window and more packets to send than that, the requester waits for the acknowledgement that
    /// it asked for. A short GSO super-packet costs the network stack as much as a full one, and
    /// short ones stay short, since each acknowledgement makes as much room as it acknowledges.
    /// READs and atomics are never part of one.
    #[inline]
    pub(super) fn avoids_sws<Q: RequestQueue>(&self, q: &Q) -> bool {
        let cwnd = self.recovery.cwnd();
        let room = cwnd.saturating_sub(self.in_flight.packets());
        if room >= little(self.recovery.burst_cwnd())
            || self.in_flight.packets() == 0
            || self.ack_req.is_owed()
        {
            return false;
        }
        let n = self.cursor.n;
        let others = q.tail().wrapping_sub(n).wrapping_sub(1);
        let left = match q.get(n) {
            Some(request) if request.op.wants_response() => return false,
            Some(request) if n != self.started.n => request.end_psn().offset_from(self.cursor.psn),
            _ => 1,
        };
        left.saturating_add(others) > room.into()
    }

    /// Whether window, fence and READ limit admit a packet of `request` at the cursor, when `ahead`
    /// packets that are not counted yet go before it.
    #[inline]
    pub(super) fn has_room(
        &self,
        request: &Request,
        attr: &Attr,
        starts: bool,
        fresh: bool,
        ahead: u16,
    ) -> bool {
        if self.in_flight.packets().saturating_add(ahead) >= self.recovery.cwnd() {
            return false;
        }
        // IBTA 10.8.3.3: a fenced request waits for the READs and atomics before it.
        if starts && request.fence && self.in_flight.rd_atomic() > 0 {
            return false;
        }
        let span = if !request.op.wants_response() {
            1
        } else if self.in_flight.rd_atomic() >= u16::from(attr.max_rd_atomic.max(1)) {
            // The limit counts as at least 1: a READ or atomic may always be retransmitted, even if
            // the limit was set to 0 meanwhile.
            return false;
        } else if fresh {
            // The request has not begun and has no PSNs yet.
            let chunk = self.recovery.read_chunk();
            request.count_psns(attr.pmtu).min(chunk)
        } else {
            let at = if starts {
                request.first_psn
            } else {
                self.cursor.psn
            };
            let index = at.offset_from(request.first_psn);
            match self.new_chunk(
                request,
                Cursor {
                    psn: at,
                    ..self.cursor
                },
            ) {
                Some(chunk) => request.psns.saturating_sub(index).min(chunk),
                None => request.chunk_end(index).saturating_sub(index),
            }
        };
        let span = self.offset(self.cursor.psn).wrapping_add(span);
        // The READ window does not limit a READ that is the only one outstanding, so that it makes
        // progress.
        let limit = match self.in_flight.rd_atomic() {
            0 => SPAN,
            _ => self
                .kept
                .count()
                .saturating_add(self.recovery.read_window()),
        };
        span <= SPAN && (span <= limit || !request.op.wants_response())
    }

    /// The size of the chunks of a READ in progress from `at` on, if that was not asked for yet and
    /// the window wants another size than they have. It may change once in a round trip.
    #[inline]
    pub(super) fn new_chunk(&self, request: &Request, at: Cursor) -> Option<u32> {
        if request.op != SendOp::Read || at.psn != self.max {
            return None;
        }
        let acked = match at.n == self.una.n {
            true => self.una.psn.offset_from(request.first_psn),
            false => 0,
        };
        let chunk = self.recovery.read_chunk();
        (chunk != request.chunk && request.may_resize(acked)).then_some(chunk)
    }
}
