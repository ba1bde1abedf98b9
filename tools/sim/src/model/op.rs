// SPDX-License-Identifier: GPL-2.0

//! A request and its known effects.

use super::fault::{Fault, Risk};
use super::key::KeyUse;
use super::verb::Verb;
use crate::api::Status;

/// Most response packets that one READ request of oxe asks for. A longer READ is several READs to
/// the responder. The first one of a READ tells how many it is ([`Op::chunk`]).
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
    /// A local operation that was carried out or has failed.
    pub carried_out: bool,
    pub keys: KeyUse,
    /// Most response packets that one READ request asks for: known once the first was sent.
    pub chunk: u64,
}

impl Op {
    /// A request of this verb and length, with nothing else.
    pub fn new(verb: Verb, len: u32) -> Op {
        Op {
            verb,
            len,
            local: 0,
            va: 0,
            rkey: 0,
            imm: [0; 4],
            inv: 0,
            signaled: false,
            solicited: false,
            fence: false,
            data: Vec::new(),
            inbox: None,
            fault: None,
            risk: Risk::default(),
            first: 0,
            span: 0,
            packets_before: 0,
            messages_before: 0,
            receive: None,
            done: None,
            carried_out: false,
            keys: KeyUse::default(),
            chunk: 0,
        }
    }

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

    /// Its request packets, a READ counted as one for each READ chunk.
    pub fn packets(&self) -> u64 {
        if self.verb == Verb::Read {
            self.span.div_ceil(self.chunk)
        } else {
            self.span
        }
    }

    /// Its messages, as a responder counts them.
    pub fn messages(&self) -> u64 {
        match self.verb {
            Verb::Read => self.packets(),
            Verb::Local(_) => 0,
            _ => 1,
        }
    }
}
