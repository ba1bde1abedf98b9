// SPDX-License-Identifier: GPL-2.0

//! The requests of one QP to its peer, in the order of posting, and their right results.

use super::fault::Fault;
use super::op::{Op, READ_CHUNK};
use super::verb::Verb;
use crate::api::Status;

/// A change of the inbox.
#[derive(Clone, Debug)]
struct Store {
    op: usize,
    at: usize,
    bytes: Vec<u8>,
}

impl Store {
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at.checked_sub(self.at)?).copied()
    }
}

/// The requests of one QP.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The first PSN, 24 bits.
    pub start_psn: u32,
    /// Bytes per packet.
    pub pmtu: u32,
    /// Most response packets that one READ request asks for.
    pub chunk: u64,
    pub ops: Vec<Op>,
    /// Where the inbox lies in the peer's memory.
    pub inbox_at: usize,
    /// The inbox before the first request, and after all that were posted.
    initial: Vec<u8>,
    image: Vec<u8>,
    stores: Vec<Store>,
    /// Which requests consume receives.
    pub consuming: Vec<usize>,
    /// The first request that must fail.
    pub doomed: Option<usize>,
    /// It may have more READs and atomics under way than the peer has resources for.
    pub exceeds_resources: bool,
    /// How many requests have completed.
    pub completed: usize,
    /// How many completed with success.
    pub succeeded: usize,
    /// How many receives the peer completed with success.
    pub received: usize,
}

impl Flow {
    /// A flow without requests; `inbox` is the peer's initial content.
    pub fn new(start_psn: u32, pmtu: u32, inbox_at: usize, inbox: &[u8]) -> Flow {
        Flow {
            start_psn,
            pmtu,
            chunk: READ_CHUNK,
            ops: Vec::new(),
            inbox_at,
            initial: inbox.to_vec(),
            image: inbox.to_vec(),
            stores: Vec::new(),
            consuming: Vec::new(),
            doomed: None,
            exceeds_resources: false,
            completed: 0,
            succeeded: 0,
            received: 0,
        }
    }

    /// Bytes of the inbox.
    pub fn inbox_len(&self) -> usize {
        self.image.len()
    }

    /// The content of the inbox after all requests posted so far.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// PSNs of all requests together.
    pub fn psns(&self) -> u64 {
        self.ops.last().map_or(0, |op| op.first + op.span)
    }

    fn packets(&self) -> u64 {
        let last = self.ops.last();
        last.map_or(0, |op| op.packets_before + op.packets())
    }

    fn messages(&self) -> u64 {
        let last = self.ops.last();
        last.map_or(0, |op| op.messages_before + op.messages())
    }

    /// How many messages end before the packet, as a responder counts them.
    pub fn messages_before(&self, packet: u64) -> u64 {
        match self.op_at(packet).map(|index| &self.ops[index]) {
            Some(op) if op.verb == Verb::Read => {
                op.messages_before + op.chunks_before(packet - op.first)
            }
            Some(op) => op.messages_before,
            None => self.messages(),
        }
    }

    /// Notes a request at the time of posting. `inbox` is the place in the inbox that a WRITE, an
    /// atomic or a READ is about, if it is.
    pub fn post(&mut self, mut op: Op, inbox: Option<usize>) -> usize {
        let index = self.ops.len();
        op.first = self.psns();
        op.chunk = self.chunk;
        op.packets_before = self.packets();
        op.messages_before = self.messages();
        op.span = match op.verb {
            verb if verb.is_atomic() => 1,
            verb if verb.is_local() => 0,
            _ => u64::from(op.len.div_ceil(self.pmtu)).max(1),
        };
        op.inbox = inbox;
        if op.verb.consumes() {
            op.receive = Some(self.consuming.len());
            self.consuming.push(index);
        }
        if let Some(at) = inbox {
            self.apply(&mut op, index, at);
        }
        if op.fault.is_some() && self.doomed.is_none() {
            self.doomed = Some(index);
        }
        self.ops.push(op);
        index
    }

    /// Notes that a READ request has asked for the packets of READ `index` before `end`, from the
    /// first one that was not asked for yet.
    pub fn ask(&mut self, index: usize, end: u64) {
        let Some(op) = self.ops.get_mut(index) else {
            return;
        };
        let end = end.min(op.span);
        let before = op.packets();
        if op.asked_end() < end {
            op.asked.push(end);
        }
        let more = op.packets().wrapping_sub(before);
        if more == 0 {
            return;
        }
        for op in &mut self.ops[index + 1..] {
            op.packets_before = op.packets_before.wrapping_add(more);
            op.messages_before = op.messages_before.wrapping_add(more);
        }
    }

    /// Notes the bytes that the request finds in the inbox, and those that it stores there.
    fn apply(&mut self, op: &mut Op, index: usize, at: usize) {
        let len = if op.verb.is_atomic() {
            8
        } else {
            op.len as usize
        };
        let found = self.image[at..at + len].to_vec();
        let word = || u64::from_ne_bytes(found[..8].try_into().unwrap());
        let bytes = match op.verb {
            Verb::Write | Verb::WriteImm | Verb::AtomicWrite => op.data.clone(),
            Verb::CompareSwap { compare, swap } if word() == compare => swap.to_ne_bytes().to_vec(),
            Verb::FetchAdd { add } => word().wrapping_add(add).to_ne_bytes().to_vec(),
            _ => Vec::new(),
        };
        if op.verb.brings_data() {
            op.data = found;
        }
        if bytes.is_empty() {
            return;
        }
        self.image[at..at + bytes.len()].copy_from_slice(&bytes);
        self.stores.push(Store {
            op: index,
            at,
            bytes,
        });
    }

    /// The oldest request without a completion completes.
    pub fn complete(&mut self, status: Status) {
        if let Some(op) = self.ops.get_mut(self.completed) {
            op.done = Some(status);
        }
        self.completed += 1;
        self.succeeded += usize::from(status == Status::Success);
    }

    /// The packet of the flow that a PSN stands for.
    pub fn packet(&self, psn: u32) -> u64 {
        u64::from(psn.wrapping_sub(self.start_psn) & 0xff_ffff)
    }

    /// The PSN of a packet of the flow.
    pub fn psn(&self, packet: u64) -> u32 {
        self.start_psn.wrapping_add(packet as u32) & 0xff_ffff
    }

    /// The request to which a packet belongs.
    pub fn op_at(&self, packet: u64) -> Option<usize> {
        let index = self.ops.partition_point(|op| op.first + op.span <= packet);
        (index < self.ops.len()).then_some(index)
    }

    /// How many request packets the flow has before the packet.
    pub fn requests_before(&self, packet: u64) -> u64 {
        match self.op_at(packet).map(|index| &self.ops[index]) {
            Some(op) if op.verb == Verb::Read => {
                op.packets_before + op.chunks_before(packet - op.first)
            }
            Some(op) => op.packets_before + (packet - op.first),
            None => self.packets(),
        }
    }

    /// One past the last request that may have been executed at the peer.
    pub fn executable(&self) -> usize {
        let all = self.ops.len();
        self.doomed
            .map_or(all, |index| match self.ops[index].fault {
                // Found when the response is sent or received: later requests may be done by then.
                Some(Fault::Unplaceable | Fault::Unfinishable | Fault::ReadFails) => all,
                _ => index + 1,
            })
    }

    /// One past the last request after `index` that may be executed before a READ at `index` is
    /// done: a fenced one waits for it.
    pub fn unfenced(&self, index: usize) -> usize {
        let later = &self.ops[index + 1..];
        let fence = later.iter().position(|op| op.fence);
        fence.map_or(self.ops.len(), |n| index + 1 + n)
    }

    /// Whether `got`, found at `at` in the inbox, is what the requests before `low` left there,
    /// but for bytes that a request in `low..high` may have stored. Gives the first wrong byte.
    pub fn check_inbox(&self, got: &[u8], at: usize, low: usize, high: usize) -> Result<(), usize> {
        let mut expected = self.initial[at..at + got.len()].to_vec();
        for store in self.stores.iter().take_while(|s| s.op < low) {
            overlay(&mut expected, at, store);
        }
        self.check_against(got, &expected, at, low, high)
    }

    /// As [`Flow::check_inbox`], with what the requests before `low` left given.
    pub fn check_against(
        &self,
        got: &[u8],
        expected: &[u8],
        at: usize,
        low: usize,
        high: usize,
    ) -> Result<(), usize> {
        if got == expected {
            return Ok(());
        }
        let from = self.stores.partition_point(|s| s.op < low);
        let to = self.stores.partition_point(|s| s.op < high);
        let later = self.stores.get(from..to).unwrap_or_default();
        for (i, (g, e)) in got.iter().zip(expected).enumerate() {
            if g != e && !later.iter().any(|s| s.byte(at + i) == Some(*g)) {
                return Err(i);
            }
        }
        Ok(())
    }

    /// Whether each byte is that of its last store. For flows whose requests were all executed.
    pub fn final_image_is(&self, got: &[u8]) -> Result<(), usize> {
        let wrong = got.iter().zip(&self.image).position(|(a, b)| a != b);
        wrong.map_or(Ok(()), Err)
    }
}

/// Puts a store over the window of the inbox that begins at `at`.
fn overlay(window: &mut [u8], at: usize, store: &Store) {
    let begin = store.at.max(at);
    let end = (store.at + store.bytes.len()).min(at + window.len());
    if begin < end {
        let bytes = &store.bytes[begin - store.at..end - store.at];
        window[begin - at..end - at].copy_from_slice(bytes);
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
pub(crate) mod tests;
