// SPDX-License-Identifier: GPL-2.0

//! The judge on the wire, the responder's half: which responses it owes, and which it has sent.
//!
//! - Responses leave in the order of the requests. If an ACK, a NAK or a response acknowledged a
//!   READ or atomic before the last response to that was sent, the requester would take that
//!   response for lost (IBTA 9.7.5.1.1, 9.7.6.1).
//! - A missing packet is reported once, until it comes (IBTA 9.7.5.2, PSN sequence error).
//! - An RNR NAK is due when the receive queue was found empty, once, and carries the QP's minimum
//!   RNR NAK timer code (IBTA 9.7.5.2.8, 11.2.5.2).
//! - A requested acknowledgement is sent soon, far below the ACK timeouts of requesters
//!   (IBTA 9.7.6.1.3, 11.2.1.2: Local CA ACK Delay).
//! - A NAK for anything else ends the connection: nothing follows it (IBTA 9.9.3).

use crate::check::{ensure, Violation};
use crate::judge::decode::{is_fatal, op, Seen, NAK_SEQUENCE};
use std::collections::VecDeque;

/// The syndrome of an ACK without end-to-end flow control (IBTA 9.7.7.2).
const NO_CREDIT: u8 = 0x1f;
/// The longest time in ns that a requested acknowledgement may take. The protocol delays an ACK for
/// half a millisecond at most; the rest is for devices that are slow, or busy with READ responses.
const ACK_DELAY: u64 = 5_000_000;
/// The type of an RNR NAK, in the top three bits of a syndrome.
const RNR: u8 = 1;

/// The responses that a responder owes and has sent.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// READ chunks and atomics that were accepted and whose responses are not complete: the next
    /// response packet, and one past the last.
    owed: VecDeque<(u64, u64)>,
    /// An RNR NAK is due with this timer code.
    rnr_due: Option<u8>,
    /// The packet that the responder has reported as missing, or was not ready for.
    reported: Option<u64>,
    /// `(end, time)`: an acknowledgement of all packets before `end` was requested at `time`.
    asked: Option<(u64, u64)>,
    /// A READ or an atomic came again, and its response is sent again before the next ACK.
    repeats: bool,
    /// The connection was ended by a NAK.
    closed: bool,
}

impl Answers {
    /// The responder has accepted a request. `answer` is the range of its response packets, if it
    /// is a READ or an atomic.
    pub fn accepted(&mut self, answer: Option<(u64, u64)>) {
        self.rnr_due = None;
        self.reported = None;
        self.owed.extend(answer);
    }

    /// A READ or an atomic came again.
    pub fn repeated(&mut self) {
        self.repeats = true;
    }

    /// A request was accepted at `now` that asks for an acknowledgement of all before `end`.
    pub fn asked(&mut self, now: u64, end: u64) {
        self.asked.get_or_insert((end, now));
    }

    /// Pages are missing at `now` as responses are sent or taken: those after them are late.
    pub fn postpone(&mut self, now: u64) {
        if let Some((_, then)) = &mut self.asked {
            *then = now;
        }
    }

    /// Whether the packet is the next packet of a response, and was not sent before.
    pub fn owes(&self, packet: u64) -> bool {
        self.owed.front().is_some_and(|(next, _)| *next == packet)
    }

    /// Whether a response is due that an ACK must not overtake.
    pub fn owes_any(&self) -> bool {
        self.repeats || !self.owed.is_empty()
    }

    /// The responder has found its receive queue empty, with this minimum RNR NAK timer code.
    pub fn not_ready(&mut self, timer: u8) {
        self.rnr_due = Some(timer);
    }

    /// A response leaves the responder, for `packet`; it acknowledges all before `end`.
    pub fn check(&mut self, now: u64, packet: u64, end: u64, seen: &Seen) -> Result<(), Violation> {
        ensure!(
            "IBTA 9.9.3",
            !self.closed,
            "after a NAK that ends all: {seen:x?}"
        );
        if let Some((next, _)) = self.owed.front() {
            ensure!(
                "IBTA 9.7.5.1.1, 9.7.6.1",
                end <= *next,
                "acknowledges all before {end}, but {next} is not answered: {seen:x?}"
            );
        }
        if let Some((_, then)) = self.asked.take_if(|(asked, _)| end >= *asked) {
            let late = now - then;
            ensure!(
                "IBTA 9.7.6.1.3, 11.2.1.2",
                late <= ACK_DELAY,
                "acknowledged {late} ns later: {seen:x?}"
            );
        }
        if seen.opcode != op::ACK {
            self.answered(packet);
            return Ok(());
        }
        self.repeats = false;
        let (syndrome, _) = seen.aeth.unwrap_or_default();
        let credits = syndrome >> 5 == 0 && syndrome != NO_CREDIT;
        ensure!("IBTA 9.7.7.2", !credits, "credits in {seen:x?}");
        self.closed = is_fatal(syndrome);
        if syndrome >> 5 == RNR {
            let (code, due) = (syndrome & 0x1f, self.rnr_due.take());
            ensure!(
                "IBTA 9.7.5.2.8",
                due.is_some(),
                "RNR NAK of {packet} for no reason"
            );
            ensure!(
                "IBTA 9.7.5.2.8",
                due == Some(code),
                "RNR timer {code}, not {due:?}"
            );
            self.reported = Some(packet);
        } else if syndrome == NAK_SEQUENCE {
            let again = self.reported == Some(packet);
            ensure!("IBTA 9.7.5.2", !again, "a second NAK of {packet}");
            self.reported = Some(packet);
        }
        Ok(())
    }

    /// Response packet `packet` was sent. A repetition changes nothing.
    fn answered(&mut self, packet: u64) {
        let Some((next, end)) = self.owed.front_mut() else {
            return;
        };
        if *next == packet {
            *next += 1;
            if next == end {
                self.owed.pop_front();
            }
        }
    }
}
