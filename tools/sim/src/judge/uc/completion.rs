// SPDX-License-Identifier: GPL-2.0

//! The judge of send completions and events of UC QPs, and of their local operations.

use super::UcView;
use crate::api::*;
use crate::check::{ensure, Violation};
use crate::model::uc::{Fault, Message, Phase};

impl UcView<'_> {
    /// A send completion: in the order of posting, once, with the status that the request deserves
    /// (IBTA 10.3.1, 11.6.2). A message is complete when all its packets are sent and the payload
    /// is copied (IBTA 9.8.2). The QP was in the state `before`. Gives the number of the request.
    pub fn check_completion(
        &self,
        end: usize,
        before: State,
        c: &SendCompletion,
    ) -> Result<usize, Violation> {
        let flow = &self.ends[end].flow;
        let m = flow.completed;
        let message = flow.messages.get(m);
        let message = message.ok_or_else(|| format!("uc{end}: {c:?} of nothing posted"))?;
        let same = flow.base + c.n as usize == m;
        ensure!(same, "uc{end}: {c:?}, expected {m}");
        let posted = message.request();
        let signaled = c.signaled == posted.signaled;
        ensure!(signaled, "uc{end}: {c:?} of {posted:?}");
        let after = self.ends[end].qp.state();
        check_status(message, c, before, after)
            .map_err(|found| found.at(format_args!("uc{end}: request {m} completes as {c:?}")))?;
        Ok(m)
    }

    /// In SQE and in error no request is left, but for those whose payload is not copied
    /// (IBTA 10.3.1, 10.3.1.6).
    pub fn check_flushed(&self, end: usize) -> Result<(), Violation> {
        let e = &self.ends[end];
        let state = e.qp.state();
        let flushes = matches!(state, State::Sqe | State::Err);
        let open = e.flow.messages.len() - e.flow.completed;
        let waits = !e.uncopied.is_empty();
        ensure!(
            "IBTA 10.3.1.6",
            !flushes || open == 0 || waits,
            "uc{end}: {open} requests are not flushed in {state:?}"
        );
        Ok(())
    }

    /// Whether the QP, which drains its send queue, is done with that now.
    fn is_drained(&self, end: usize) -> bool {
        let e = &self.ends[end];
        let begun = e.flow.messages.get(e.flow.current);
        let begun = begun.is_some_and(|m| m.sent > 0 && !m.failed);
        self.drains(end) && !begun && e.uncopied.is_empty()
    }

    /// Whether the QP drains its send queue, or is done with that now.
    fn drains(&self, end: usize) -> bool {
        let is_dead = self.responders[end].events.contains(Events::ENTERED_ERROR);
        !is_dead && self.ends[end].phase == Phase::Draining
    }

    /// Events have a reason, and come at once: communication established, send queue drained
    /// (IBTA 11.6.3.2), and that the QP is in error.
    pub fn check_events(&self, end: usize, events: Events) -> Result<(), Violation> {
        let mut owed = self.responders[end].events;
        let drained = self.is_drained(end);
        if drained {
            owed = owed.union(Events::SQ_DRAINED);
        }
        ensure!(
            "IBTA 11.6.3.2",
            events == owed,
            "uc{end}: events {events:?}, not {owed:?}"
        );
        let draining = self.drains(end) && !drained;
        let says = self.ends[end].qp.is_draining();
        ensure!(says == draining, "uc{end}: drains {says}, not {draining}");
        Ok(())
    }

    /// A local operation is carried out: once, in the order of posting (IBTA 10.8.3.3), in RTS
    /// alone (IBTA 10.3.1), and when no payload is to be read any more, as its key may end.
    pub fn check_turn(&self, end: usize, m: usize) -> Result<(), Violation> {
        let (e, flow) = (&self.ends[end], &self.ends[end].flow);
        let turn = m == flow.current && e.phase == Phase::Up && e.qp.state() == State::Rts;
        let message = flow.messages.get(m);
        let message = message.ok_or("local operation of nothing posted")?;
        let fine = message.is_local() && !message.finished && !message.failed;
        ensure!(
            "IBTA 10.8.3.3",
            turn && fine,
            "uc{end}: {m} is carried out, {message:?}"
        );
        ensure!(
            e.uncopied.is_empty() && flow.completed == m,
            "uc{end}: {m} is carried out before {} is complete",
            flow.completed
        );
        Ok(())
    }
}

/// The status is that which the request deserves, and the QP is in the right state after it.
fn check_status(
    message: &Message,
    c: &SendCompletion,
    before: State,
    after: State,
) -> Result<(), Violation> {
    match c.status {
        Status::Success => {
            let fine = message.finished && message.copied && !message.failed;
            ensure!(
                "IBTA 9.8.2",
                fine && c.byte_len == message.len(),
                "in {before:?}"
            );
            ensure!(before == after, "in {before:?}, then {after:?}");
        }
        Status::WrFlush => {
            // IBTA 10.3.1.6.
            let flushed = matches!(before, State::Sqe | State::Err) && before == after;
            let right = flushed && !message.finished;
            ensure!("IBTA 10.3.1.6", right, "in {before:?}, then {after:?}");
        }
        status => {
            let fault = message.fault.map(Fault::status);
            let fails = message.failed || message.fails_at_once() && message.sent == 0;
            let same = fault == Some(status) && fails && !message.finished;
            ensure!("IBTA 11.6.2", same, "in {before:?}, fault {fault:?}");
            // The send queue alone is in error (IBTA 10.3.1.6).
            let wanted = match before {
                State::Rts => State::Sqe,
                other => other,
            };
            ensure!(
                "IBTA 10.3.1.6",
                after == wanted,
                "in {before:?}, then {after:?}"
            );
        }
    }
    Ok(())
}
