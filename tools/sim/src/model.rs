// SPDX-License-Identifier: GPL-2.0

//! The requests of one QP to its peer, and their right results.
//!
//! A [`Flow`] lists the requests of one QP in the order of posting. It knows beforehand which PSNs
//! each takes, which bytes travel, what it does to the peer's memory and what it returns. The
//! requests of a flow change only the flow's own area at the peer, its inbox, so no other flow
//! matters.

use crate::api::Status;
use crate::deregister::Risk;
use crate::fast::{FastReg, KeyUse};

/// The verbs of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Send,
    SendImm,
    SendInv,
    Write,
    WriteImm,
    Read,
    CompareSwap {
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        add: u64,
    },
    AtomicWrite,
    /// FLUSH with this placement type and selectivity level, as they are on the wire, and this
    /// length of the range. The length of the message is 0.
    Flush {
        placement: u8,
        level: u8,
        range: u32,
    },
    Local(Local),
}

/// What a request does that sends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Binds a window of which no peer is told: only its place among the requests matters.
    Bind,
    /// REG_MR.
    Register(FastReg),
    /// LOCAL_INV of this key.
    Invalidate(u32),
}

impl Verb {
    /// Whether it takes a receive request at the peer.
    pub fn consumes(self) -> bool {
        use Verb::*;
        matches!(self, Send | SendImm | SendInv | WriteImm)
    }

    /// Compare and swap, fetch and add.
    pub fn is_atomic(self) -> bool {
        matches!(self, Verb::CompareSwap { .. } | Verb::FetchAdd { .. })
    }

    /// Whether the answer carries data.
    pub fn brings_data(self) -> bool {
        self == Verb::Read || self.is_atomic()
    }

    /// Whether it has a response of its own, and so `max_rd_atomic` counts it.
    pub fn is_read_like(self) -> bool {
        self.brings_data() || matches!(self, Verb::AtomicWrite | Verb::Flush { .. })
    }

    /// Whether its payload goes from requester to responder.
    pub fn carries_data(self) -> bool {
        self == Verb::AtomicWrite || !self.is_read_like() && !self.is_local()
    }

    /// Whether it sends nothing.
    pub fn is_local(self) -> bool {
        matches!(self, Verb::Local(_))
    }
}

/// Why a request must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key that does not exist, a range beyond the region, or a right that was not given.
    NotEnabled,
    /// The QP at the peer does not allow the operation.
    Disallowed,
    /// An atomic or ATOMIC WRITE on an address that is no multiple of eight.
    Misaligned,
    /// A SEND longer than the receive that it meets.
    TooLong,
    /// The receive that it meets is garbage.
    BrokenReceive,
    /// The peer's memory does not work.
    RemoteDefect,
    /// The request did not pass the device's checks.
    Unfit(Status),
    /// The payload cannot be read when a packet is made of it.
    Unreadable,
    /// The answer cannot be stored.
    Unplaceable,
    /// A WRITE or ATOMIC WRITE that announces another length than it has: only a broken peer sends
    /// such.
    Lie,
    /// A FLUSH with reserved values.
    Reserved,
    /// More READs and atomics under way than the peer has resources for.
    TooMany,
    /// The responder cannot read what it has promised to send.
    ReadFails,
    /// A request that sends nothing cannot be carried out.
    Unbindable,
    /// What is left to be done when a READ is whole fails.
    Unfinishable,
}

impl Fault {
    /// With which status the request may complete.
    pub fn statuses(self) -> &'static [Status] {
        use Status::*;
        match self {
            Fault::NotEnabled | Fault::ReadFails => &[RemAccess],
            // An operation that the receive queue does not support (IBTA 11.6.2).
            Fault::Disallowed
            | Fault::Lie
            | Fault::Misaligned
            | Fault::TooLong
            | Fault::Reserved
            | Fault::TooMany => &[RemInvReq],
            Fault::BrokenReceive | Fault::RemoteDefect => &[RemOp],
            Fault::Unbindable | Fault::Unfinishable => &[MwBind],
            Fault::Unfit(LocLen) => &[LocLen],
            Fault::Unfit(LocQpOp) => &[LocQpOp],
            Fault::Unfit(_) | Fault::Unreadable | Fault::Unplaceable => &[LocProt],
        }
    }

    /// Whether the responder finds it, refuses with a NAK and goes to error itself.
    pub fn is_remote(self) -> bool {
        use Fault::*;
        !matches!(
            self,
            Unfit(_) | Unreadable | Unplaceable | Unbindable | Unfinishable
        )
    }
}

/// Most response packets that one READ request of oxe asks for. A longer READ is several READs to
/// the responder.
pub const READ_CHUNK: u64 = 122;

/// A request and its known effects.
#[derive(Clone, Debug)]
pub struct Op {
    pub verb: Verb,
    /// Bytes; 8 for an atomic and an ATOMIC WRITE, 0 for a FLUSH.
    pub len: u32,
    /// Where its data is, or goes, in the requester's memory.
    pub local: usize,
    pub va: u64,
    pub rkey: u32,
    pub imm: [u8; 4],
    pub inv: u32,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    /// The bytes that travel: the payload of a SEND or WRITE, the bytes that a READ finds if no
    /// later request was executed before it, or the value that an atomic finds.
    pub data: Vec<u8>,
    /// The place in the inbox that it is about, if any.
    pub inbox: Option<usize>,
    pub fault: Option<Fault>,
    /// Further reasons for which it may fail.
    pub risk: Risk,
    /// Which packet of the flow is its first, counted from 0.
    pub first: u64,
    /// How many PSNs it takes.
    pub span: u64,
    /// Request packets of the flow before it, a READ counted as one for each READ chunk.
    pub packets_before: u64,
    /// Messages before it, as a responder counts them.
    pub messages_before: u64,
    /// Its number among those that consume receives.
    pub receive: Option<usize>,
    pub done: Option<Status>,
    /// It sends nothing, and was carried out or has failed.
    pub carried_out: bool,
    pub keys: KeyUse,
    /// Most response packets that one READ request asks for.
    pub chunk: u64,
}

impl Op {
    /// One past packet `k` of it; for a READ one past the READ chunk that has packet `k`.
    pub fn chunk_end(&self, k: u64) -> u64 {
        if self.verb == Verb::Read {
            ((k / self.chunk + 1) * self.chunk).min(self.span)
        } else {
            k + 1
        }
    }

    /// Whether it is about memory of the peer.
    pub fn names_region(&self) -> bool {
        use Verb::*;
        !matches!(self.verb, Send | SendImm | SendInv | Local(_))
    }

    fn packets(&self) -> u64 {
        if self.verb == Verb::Read {
            self.span.div_ceil(self.chunk)
        } else {
            self.span
        }
    }

    fn messages(&self) -> u64 {
        match self.verb {
            Verb::Read => self.packets(),
            Verb::Local(_) => 0,
            _ => 1,
        }
    }
}

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
    pub greedy: bool,
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
            greedy: false,
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
                op.messages_before + (packet - op.first) / op.chunk
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
            Some(op) if op.verb == Verb::Read => op.packets_before + (packet - op.first) / op.chunk,
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
#[path = "model_tests.rs"]
pub(crate) mod tests;
