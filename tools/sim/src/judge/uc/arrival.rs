// SPDX-License-Identifier: GPL-2.0

//! The judge of packets that reach a responder. As nothing is sent again, each packet is taken or
//! dropped for a reason that the judge knows:
//!
//! - A packet begins a message, or is the one after the last packet that was taken of the message
//!   in progress. Anything else drops the message in progress, and is dropped itself
//!   (IBTA 9.8.2.2).
//! - A message start whose PSN is 1 to 1024 before the expected one is dropped as a duplicate. It
//!   drops the message in progress, too, so that packets of a peer that was reset are not joined to
//!   it. This rule is beyond the specification, whose networks duplicate and delay nothing. So it
//!   has an end: a second such message that comes right after all packets of the first is taken.
//! - A message of which a packet has a wrong length for its position, or more or fewer bytes than
//!   the RETH says, is dropped (IBTA 9.8.2.2, 9.7.4.1.6).
//! - A message without a fitting receive, and a WRITE to memory that the key and the QP do not
//!   permit, are dropped whole (IBTA 9.9.3). The receive of a dropped message is used for the next.
//! - A message of which a packet finds a page missing is dropped whole (IBTA 9.8.2.2).
//! - A receive that is not usable completes with an error, which takes the QP to the error state
//!   (IBTA 9.9.3).

use crate::api::*;
use crate::check::{ensure, Violation};
use crate::host::memory::Regions;
use crate::host::queues::{RecvRing, RecvSlot};
use crate::judge::access::partition_matches;
use crate::model::uc::{Message, Verb};

/// A message start no more than this before the expected PSN is a duplicate.
const STALE: u32 = 1024;

const PSN_MASK: u32 = 0xff_ffff;

/// The judge's record of a responder.
#[derive(Clone, Debug)]
pub struct Responder {
    /// The PSN after the last packet that began or continued a message. None before the first.
    expected: Option<u32>,
    /// The message in progress, and the packet of it that has to come.
    in_progress: Option<(usize, u32)>,
    /// The last packet was one of a message that was dropped as a duplicate: the next PSN.
    duplicate: Option<u32>,
    /// The newest message that has begun.
    newest: Option<usize>,
    /// A receive was taken, and is not complete.
    pub recv_in_use: bool,
    /// The events that the QP owes.
    pub events: Events,
    /// Messages that were dropped, and that were begun once more, long after.
    pub dropped: u64,
    pub late_duplicates: u64,
}

/// Packets that reach a responder: one, or middle packets of a message.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub message: &'a Message,
    /// Its number, the first of the packets, and how many these are.
    pub m: usize,
    pub k: u32,
    pub count: u32,
    /// Bytes of payload, of all packets together.
    pub len: u32,
    pub sender_pkey: u16,
    /// A page of the memory that they go to is missing.
    pub absent: bool,
}

impl Arrival<'_> {
    fn ends(&self) -> bool {
        self.message.ends_with(self.k + self.count - 1)
    }
}

/// The responder's own side.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub state: State,
    pub pkey: u16,
    pub pmtu: u32,
    pub permits_write: bool,
    pub recv: &'a RecvRing,
    pub regions: &'a Regions,
}

/// The right treatment of packets.
#[derive(Clone, Copy, Debug)]
pub struct Treatment {
    pub verdict: Verdict,
    /// Where the payload goes.
    pub place: Option<usize>,
    /// The receive that completes.
    pub completes: Option<(usize, RecvCompletion)>,
    /// The message is whole.
    pub whole: bool,
}

impl Treatment {
    /// Whether the QP goes to the error state.
    pub fn fails(&self) -> bool {
        let mut error = self.completes.iter();
        error.any(|(_, completion)| completion.status != Status::Success)
    }

    fn drop(reason: DropReason) -> Treatment {
        Treatment {
            verdict: Verdict::Dropped(reason),
            place: None,
            completes: None,
            whole: false,
        }
    }
}

impl Responder {
    /// Of a QP that was just reset.
    pub const NEW: Responder = Responder {
        expected: None,
        in_progress: None,
        duplicate: None,
        newest: None,
        recv_in_use: false,
        events: Events::NONE,
        dropped: 0,
        late_duplicates: 0,
    };

    /// The message in progress, and the packet of it that has to come.
    pub fn in_progress(&self) -> Option<(usize, u32)> {
        self.in_progress
    }

    /// The expected PSN.
    pub fn expected(&self) -> Option<u32> {
        self.expected
    }

    /// The message in progress, if there is one, will never be whole.
    pub fn drop_message(&mut self) {
        self.dropped += u64::from(self.in_progress.take().is_some());
    }

    /// Says what is to be done with packets.
    pub fn treatment(&mut self, arrival: &Arrival, place: &Place) -> Result<Treatment, Violation> {
        if !place.state.responds() {
            return Ok(Treatment::drop(DropReason::State));
        }
        // IBTA 9.6.1.1, 10.9.3.
        if !partition_matches(arrival.sender_pkey, place.pkey) {
            return Ok(Treatment::drop(DropReason::PKey));
        }
        if let Some(reason) = self.sequence(arrival, place.state)? {
            return Ok(Treatment::drop(reason));
        }
        let right = match arrival.message.verb {
            _ if arrival.message.is_misshapen(arrival.k) => Treatment::drop(DropReason::Refused),
            Verb::Send => self.send(arrival, place),
            _ => self.write(arrival, place),
        };
        let taken = right.verdict == Verdict::Accepted;
        self.dropped += u64::from(!taken);
        let next = (arrival.m, arrival.k + arrival.count);
        self.in_progress = (taken && !right.whole).then_some(next);
        Ok(right)
    }

    /// Packets that neither begin a message nor go on with the one in progress are dropped
    /// (IBTA 9.8.2.2).
    fn sequence(
        &mut self,
        arrival: &Arrival,
        state: State,
    ) -> Result<Option<DropReason>, Violation> {
        let Arrival { m, k, count, .. } = *arrival;
        let psn = arrival.message.first.wrapping_add(k) & PSN_MASK;
        let starts = k == 0;
        let before = self.expected.map(|e| e.wrapping_sub(psn) & PSN_MASK);
        let continues = self.in_progress == Some((m, k));
        if !continues {
            self.drop_message();
        }
        let next = psn.wrapping_add(count) & PSN_MASK;
        let follows = self.duplicate.take() == Some(psn);
        if starts && !follows && before.is_some_and(|before| (1..=STALE).contains(&before)) {
            self.duplicate = Some(next);
            return Ok(Some(DropReason::Duplicate));
        }
        if !starts && !continues {
            self.duplicate = follows.then_some(next);
            return Ok(Some(DropReason::OutOfSequence));
        }
        if starts {
            // Messages arrive in the order of sending, at most once (IBTA 9.8.2). The exceptions
            // are copies that are later than the rule on duplicates heeds, or follow each other.
            let again = self.newest.is_some_and(|newest| m <= newest);
            let ancient = before.is_some_and(|before| before > STALE && before <= PSN_MASK / 2);
            ensure!(
                "IBTA 9.8.2",
                !again || ancient || follows,
                "message {m} after {:?}",
                self.newest
            );
            self.late_duplicates += u64::from(again);
            self.newest = Some(m);
        }
        // IBTA 11.6.3.2, communication established.
        if self.expected.is_none() && state == State::Rtr {
            self.events = self.events.union(Events::COMM_EST);
        }
        self.expected = Some(next);
        Ok(None)
    }

    fn send(&mut self, arrival: &Arrival, place: &Place) -> Treatment {
        let Some((slot, receive)) = next_receive(place.recv) else {
            return Treatment::drop(DropReason::NoReceive);
        };
        self.recv_in_use = true;
        let offset = arrival.k * place.pmtu;
        let usable = arrival.len == 0 || !receive.unusable;
        if receive.garbage || !usable {
            return self.fail(slot, false);
        }
        if arrival.len > 0 && offset + arrival.len > receive.cap {
            return Treatment::drop(DropReason::ReceiveTooShort);
        }
        let at = receive.at + offset as usize;
        self.accept(arrival, Some(at), Some(slot))
    }

    fn write(&mut self, arrival: &Arrival, place: &Place) -> Treatment {
        let Arrival { message, k, .. } = *arrival;
        let refused = Treatment::drop(DropReason::Refused);
        // IBTA 9.7.4.1.6: the packets must carry exactly as many bytes as the RETH says.
        let (after, total) = (k * place.pmtu + arrival.len, message.reth_len());
        let fits = match arrival.ends() {
            true => after == total,
            false => after < total,
        };
        if !fits {
            return refused;
        }
        // The key of a WRITE without data is not looked at (IBTA 9.7.4.1.5).
        let valid = place.regions.is_valid(message.rkey) && message.place.is_some();
        let permitted = place.permits_write && (valid || message.is_empty());
        if k == 0 && !permitted {
            return refused;
        }
        let mut slot = None;
        if message.imm.is_some() && arrival.ends() {
            let Some((n, receive)) = next_receive(place.recv) else {
                return Treatment::drop(DropReason::NoReceive);
            };
            if receive.garbage {
                return self.fail(n, true);
            }
            self.recv_in_use = true;
            slot = Some(n);
        }
        if arrival.len > 0 && !valid {
            return refused;
        }
        let at = message.place.map(|at| at + (k * place.pmtu) as usize);
        self.accept(arrival, at, slot)
    }

    fn accept(&mut self, arrival: &Arrival, at: Option<usize>, slot: Option<usize>) -> Treatment {
        if arrival.absent && arrival.len > 0 {
            return Treatment::drop(DropReason::NotPresent);
        }
        let message = arrival.message;
        let whole = arrival.ends();
        let write_imm = message.verb == Verb::Write;
        let completion = RecvCompletion {
            status: Status::Success,
            write_imm,
            byte_len: message.len(),
            imm: message.imm,
            inv_rkey: None,
            solicited: message.solicited,
        };
        let completes = slot.filter(|_| whole).map(|slot| (slot, completion));
        if completes.is_some() {
            self.recv_in_use = false;
        }
        Treatment {
            verdict: Verdict::Accepted,
            place: at.filter(|_| arrival.len > 0),
            completes,
            whole,
        }
    }

    /// The receive is at fault (IBTA 9.9.3).
    fn fail(&mut self, slot: usize, write_imm: bool) -> Treatment {
        self.recv_in_use = false;
        self.events = self.events.union(Events::ENTERED_ERROR);
        let completion = RecvCompletion {
            status: Status::LocProt,
            write_imm,
            byte_len: 0,
            imm: None,
            inv_rkey: None,
            solicited: false,
        };
        Treatment {
            completes: Some((slot, completion)),
            ..Treatment::drop(DropReason::Refused)
        }
    }
}

/// The oldest receive that is not complete: receives complete in the order of posting.
fn next_receive(recv: &RecvRing) -> Option<(usize, RecvSlot)> {
    let open = recv.slots.iter().position(|r| r.done.is_none())?;
    Some((open, recv.slots[open]))
}
