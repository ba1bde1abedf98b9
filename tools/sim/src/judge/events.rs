// SPDX-License-Identifier: GPL-2.0

//! The judge of the states of QPs: what one in error says and sends, and of what programs hear.

use super::decode::Seen;
use super::view::View;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::model::outcome::Pause;

/// The events that report a refused request, and the status with which that fails at the peer.
pub const ERRORS: [(Events, Status); 3] = [
    (Events::REQ_ERR, Status::RemInvReq),
    (Events::ACCESS_ERR, Status::RemAccess),
    (Events::FATAL, Status::RemOp),
];

impl View<'_> {
    /// Events of a QP have a reason (IBTA 11.6.3). The send queue is drained when all requests that
    /// had begun are complete (IBTA 11.6.3.2).
    pub fn check_events(&self, qp: usize, events: Events) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let again = events.contains(Events::COMM_EST) && q.fate.established;
        ensure!("IBTA 11.6.3.2", !again, "qp{qp}: established twice");
        if events.contains(Events::SQ_DRAINED) {
            let Pause::Draining(begun) = q.pause else {
                let text = format!("qp{qp}: drained in {:?}", q.pause);
                return Err(Violation::of("IBTA 11.6.3.2", text));
            };
            let done = q.flow.completed;
            ensure!(
                "IBTA 11.6.3.2",
                done >= begun,
                "qp{qp}: drained with {done} of {begun} complete"
            );
        }
        if self.is_hostile() {
            return Ok(());
        }
        let (dooms, exceeds_resources) =
            (self.remote_dooms(qp), self.peer(qp).flow.exceeds_resources);
        let expected = |status: Status| {
            let too_many = exceeds_resources && status == Status::RemInvReq;
            too_many || dooms.iter().any(|f| f.statuses().contains(&status))
        };
        for (event, status) in ERRORS {
            let fine = !events.contains(event) || expected(status);
            ensure!(
                "IBTA 11.6.3",
                fine,
                "qp{qp}: {events:?}, expected for {dooms:?}"
            );
        }
        Ok(())
    }

    /// A responder that has refused a request reports it to its program: by a receive that
    /// completes in error, or by an event (IBTA 11.6.3, affiliated asynchronous errors).
    pub fn check_refusal(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let own = q.fate.killed || q.fate.first_error.is_some();
        let free = q.conn.is_foreign() || self.is_hostile();
        let reported = q.fate.event || q.fate.receive_error.is_some();
        ensure!(
            "IBTA 11.6.3",
            own || free || reported,
            "qp{qp}: in error, and its program hears nothing"
        );
        Ok(())
    }

    /// A QP that took a request before it could send has said that communication is established
    /// (IBTA 11.6.3.2).
    pub fn check_established(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let free = q.conn.is_foreign() || q.fate.established;
        ensure!(
            "IBTA 11.6.3.2",
            free || !q.fate.early,
            "qp{qp}: communication established, and no event"
        );
        Ok(())
    }

    /// A QP that no program moved to error has another reason to be there.
    pub fn explain_death(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let own = q.fate.first_error.is_some_and(|s| s != Status::WrFlush);
        let remote = !self.remote_dooms(qp).is_empty();
        let hostile = self.is_hostile();
        let excuse = q.fate.killed || own || remote || hostile;
        ensure!(excuse, "qp{qp}: in error for no reason");
        Ok(())
    }

    /// A QP in error sends its last responses and a NAK if the peer caused the error, and otherwise
    /// nothing but the delayed ACK (IBTA 10.3.1).
    pub fn check_silence(&self, qp: usize, seen: &Seen) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let dead = q.conn.state() == State::Err;
        let own = q.fate.first_error.is_some_and(|s| s != Status::WrFlush);
        let last_word = seen.is_ack() || seen.is_response() && !(q.fate.killed || own);
        let mute = dead && !last_word;
        ensure!(
            "IBTA 10.3.1",
            !mute,
            "qp{qp}: in error, and sends {seen:x?}"
        );
        Ok(())
    }

    /// The requester has nothing to send now: it must have asked for a response.
    pub fn check_asked(&self, qp: usize) -> Result<(), Violation> {
        let q = &self.qps[qp];
        let free = q.conn.is_foreign() || self.is_hostile();
        if q.conn.state() != State::Rts || free {
            return Ok(());
        }
        // A packet whose memory is gone cannot be sent again to ask.
        let mut open = q.flow.ops.iter().skip(q.flow.completed);
        let gone = open.find(|op| op.risk.local).map(|op| op.first);
        self.watches[qp]
            .check_asked(gone)
            .map_err(|found| found.at(format_args!("qp{qp}")))
    }
}
