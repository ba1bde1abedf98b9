// SPDX-License-Identifier: GPL-2.0

//! Gaps in READ responses: what comes behind one is kept, and the gap alone is asked for.
//!
//! A response that is missing is shown by a later one (IBTA 9.7.6.1, implied NAK). The requester
//! may then send the READ request again for the part that is missing: its PSN is that of the first
//! missing packet, its address and length are those of the missing bytes (IBTA 9.7.6.1, 9.9.2.1),
//! and it lies within an earlier READ request, as a duplicate does (IBTA 9.7.5.1.3). To a responder
//! that goes back it is such a duplicate; nothing of it tells that the rest is kept here.
//!
//! - A gap request is sent when the response that has the gap is over, which the last packet of it
//!   shows, or a later response. A duplicate that came before would end that response early.
//! - One gap request is outstanding at a time, for the oldest missing packet and up to the newest
//!   missing one of that chunk. The next one is sent when it is answered. So gaps are asked for in
//!   ascending order: rdma_rxe's responder moves the start of what it accepts as a duplicate
//!   forward with each.
//! - A requester that goes back, for a timeout, a probe, a NAK or anything that is not kept,
//!   forgets what it has kept, and asks for all from the oldest missing packet on.

use super::common::{
    Attr, DropReason, Instant, Request, RequestQueue, RequesterOps, SendOp, Transmit, Verdict,
};
use super::cwnd::{Acked, CongestionControl};
use super::request_packet::rd_atomic_request_packet;
use super::tally::RequesterEvent;
use super::wire::{Kind, PacketRepr, Psn};
use super::{Cursor, Requester};

/// Most requests that are looked at for the one that a response belongs to.
const MAX_REQUESTS: usize = 256;

impl<C: CongestionControl> Requester<C> {
    /// See [`Connection::keep_responses`](super::super::Connection::keep_responses).
    pub(in super::super) fn keep_responses(&mut self, keeps: bool) {
        self.kept.enable(keeps);
    }

    /// A response came while that with PSN `una` is missing: where it belongs, if it is one to a
    /// READ that can be kept. Any other one makes the requester go back.
    ///
    /// # Errors
    ///
    /// The verdict on a response that is not kept.
    #[cold]
    pub(super) fn place_behind_gap<E: RequestQueue + RequesterOps>(
        &mut self,
        now: Instant,
        attr: &Attr,
        pkt: &PacketRepr,
        env: &E,
    ) -> Result<Cursor, Verdict> {
        let psn = pkt.bth.psn;
        let response = pkt.bth.opcode.kind() == Kind::ReadResponse;
        let may_keep = response && self.kept.admits(psn, self.una.psn) && self.is_in_read(env);
        let at = if may_keep {
            self.find_read(psn, env)
        } else {
            None
        };
        match at {
            None => Err(self.implied_nak(now, attr)),
            Some(_) if self.kept.has(psn) => Err(Verdict::Dropped(DropReason::Ghost)),
            Some(at) if self.overlaps_earlier(at.n, env) => {
                // It is asked for again when its turn comes.
                self.kept.carried_out(psn.next(), self.una.psn);
                self.ask_for_gap(now, attr, env);
                Err(Verdict::Dropped(DropReason::Gap))
            }
            Some(at) => Ok(at),
        }
    }

    /// Whether what request `n` reads goes where responses that are missing go, too. The later
    /// request is to have the last word there, as READs keep their order (IBTA 9.5).
    fn overlaps_earlier<E: RequestQueue + RequesterOps>(&self, n: u32, env: &E) -> bool {
        let earlier = (0..n.wrapping_sub(self.una.n)).map(|i| self.una.n.wrapping_add(i));
        let responds = |n: u32| {
            env.get(n)
                .is_some_and(|request| request.op.wants_response())
        };
        earlier
            .filter(|n| responds(*n))
            .any(|other| env.overlap(n, other))
    }

    /// The READ response with `psn` was placed, and that at `una` is missing.
    #[cold]
    pub(super) fn keep_response<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        psn: Psn,
        q: &Q,
    ) -> Verdict {
        self.kept.insert(psn, self.una.psn);
        self.recovery.on_kept(now, attr);
        self.ask_for_gap(now, attr, q);
        Verdict::Accepted
    }

    /// Whether the request at `una` is a READ of which responses are missing that can be asked for
    /// alone.
    fn is_in_read<Q: RequestQueue>(&self, q: &Q) -> bool {
        let read = |request: &Request| request.op == SendOp::Read;
        !self.recovery.is_repairing() && q.get(self.una.n).is_some_and(read)
    }

    /// The position of the READ response with `psn`, which is behind `una`.
    fn find_read<Q: RequestQueue>(&self, psn: Psn, q: &Q) -> Option<Cursor> {
        let mut n = self.una.n;
        for _ in 0..MAX_REQUESTS {
            let request = q.get(n).filter(|_| n != self.started.n)?;
            if psn.is_within(request.first_psn, request.psns) {
                return (request.op == SendOp::Read).then_some(Cursor { n, psn });
            }
            n = n.wrapping_add(1);
        }
        None
    }

    /// The responder has acknowledged everything before `end`, but the response to the READ or
    /// atomic at `una` is missing.
    #[cold]
    pub(super) fn handle_ack_behind_gap<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        end: Psn,
        q: &Q,
    ) -> Verdict {
        let Cursor { n, psn } = self.una;
        let over = q
            .get(n)
            .is_some_and(|request| end.offset_from(psn) >= left(request, psn));
        if !over || !self.kept.admits(end.prev(), psn) || !self.is_in_read(q) {
            return self.implied_nak(now, attr);
        }
        self.kept.carried_out(end, psn);
        self.ask_for_gap(now, attr, q);
        Verdict::Dropped(DropReason::Gap)
    }

    /// `segments` responses before `una` were taken, which completed the READ chunk `acked`, if
    /// any: goes on over those that are kept behind them.
    #[cold]
    pub(super) fn close_gap<E: RequestQueue + RequesterOps>(
        &mut self,
        now: Instant,
        attr: &Attr,
        segments: u16,
        mut acked: Acked,
        env: &mut E,
    ) -> Verdict {
        self.kept.pass(self.una.psn, segments.into());
        while let Some(end) = self.kept.end(self.una.psn) {
            let Cursor { n, psn } = self.una;
            let Some(&request) = env.get(n) else { break };
            if !request.op.wants_response() {
                // IBTA 9.7.5.1.1: the responses behind acknowledge it.
                self.acknowledge(now, attr, end, env);
                if self.una.psn == psn {
                    break;
                }
                continue;
            }
            let index = psn.offset_from(request.first_psn);
            let run = self.kept.take_run(psn, left(&request, psn));
            if run == 0 {
                break;
            }
            if index.saturating_add(run) >= request.psns {
                if let Err(status) = env.finish_read(n) {
                    self.fail(status);
                    return Verdict::Dropped(DropReason::Unplaceable);
                }
            }
            acked = acked.and(self.take_responses(&request, run, env));
        }
        self.kept.settle(self.una.psn);
        self.progress(now, attr, acked);
        self.ask_for_gap(now, attr, env);
        Verdict::Accepted
    }

    /// Has the gap at `una` asked for, if the response that it is in is over. It counts as a retry
    /// (IBTA 9.9.2.1), and makes the READ window smaller once in a round trip.
    #[cold]
    fn ask_for_gap<Q: RequestQueue>(&mut self, now: Instant, attr: &Attr, q: &Q) {
        let una = self.una.psn;
        let (Some(end), Some(request)) = (self.kept.end(una), q.get(self.una.n)) else {
            return;
        };
        if self.recovery.is_repairing() {
            return;
        }
        if request.op != SendOp::Read {
            // An atomic, whose response is not there: those behind it are not, either.
            self.retry_response(now, attr);
            return;
        }
        let left = left(request, una);
        let over = end.offset_from(una) >= left;
        // The requester went back, and has not asked for this chunk again.
        let unasked = self.offset(self.cursor.psn) < left;
        if !over || unasked || !self.kept.may_ask(una) {
            return;
        }
        if let Err(status) = self.recovery.count_retry(attr) {
            // For the same gap once more a probe comes first, which is no retry.
            if !self.kept.has_asked() {
                self.fail(status);
            }
            return;
        }
        self.tally.note(RequesterEvent::ReadGap);
        if self.kept.ask(una, self.max) {
            self.recovery.on_response_loss(self.response_loss(now));
        }
        self.recovery.on_gap();
    }

    /// Sends the request for the gap at `una`.
    #[cold]
    pub(super) fn send_gap_request<Q: RequestQueue>(
        &mut self,
        now: Instant,
        attr: &Attr,
        q: &Q,
    ) -> Option<Transmit> {
        let Cursor { n, psn } = self.una;
        let request = *q.get(n)?;
        let index = psn.offset_from(request.first_psn);
        let count = self.kept.missing_end(psn, left(&request, psn));
        let end = psn.add(count);
        self.kept.on_asked(psn, end, self.max);
        self.tally.on_sent_again(psn, end, 1, self.max);
        self.recovery.on_sent(now, attr, end, false, true);
        let last = index.saturating_add(count);
        Some(rd_atomic_request_packet(&request, n, index, last, attr))
    }

    /// Takes a gap request back; gives whether the packet with `psn` was one.
    #[cold]
    pub(super) fn undo_gap_request(&mut self, psn: Psn) -> bool {
        let Some(end) = self.kept.undo(psn, self.una.psn) else {
            return false;
        };
        self.tally.on_undo(psn, end);
        true
    }
}

/// How many packets the chunk of a READ has from `psn` on.
fn left(request: &Request, psn: Psn) -> u32 {
    let index = psn.offset_from(request.first_psn);
    request.chunk_end(index).saturating_sub(index)
}
