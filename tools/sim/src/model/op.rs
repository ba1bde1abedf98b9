// SPDX-License-Identifier: GPL-2.0

//! A request and its known effects.

use super::fault::{Fault, Risk};
use super::key::KeyUse;
use super::verb::Verb;
use crate::api::Status;

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
    /// A local operation that was carried out or has failed.
    pub carried_out: bool,
    pub keys: KeyUse,
    /// Most response packets that one READ request asks for.
    pub chunk: u64,
    /// One past the last packet of each READ request that was sent for it, in ascending order. What
    /// they were is not known before.
    pub asked: Vec<u64>,
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
            asked: Vec::new(),
        }
    }

    /// One past packet `k` of it; for a READ one past the READ chunk that has packet `k`.
    pub fn chunk_end(&self, k: u64) -> u64 {
        if self.verb != Verb::Read {
            return k + 1;
        }
        let known = self.asked.partition_point(|end| *end <= k);
        let end = self.asked.get(known).copied();
        end.unwrap_or_else(|| {
            let from = self.asked_end();
            let end = from.saturating_add(((k - from) / self.chunk + 1).saturating_mul(self.chunk));
            end.min(self.span)
        })
    }

    /// One past the last packet of a READ that was asked for.
    pub fn asked_end(&self) -> u64 {
        self.asked.last().copied().unwrap_or(0)
    }

    /// How many READ chunks end before packet `k`.
    pub fn chunks_before(&self, k: u64) -> u64 {
        let known = self.asked.partition_point(|end| *end <= k) as u64;
        known + k.saturating_sub(self.asked_end()) / self.chunk
    }

    /// Whether a READ chunk begins with packet `k`.
    pub fn starts_chunk(&self, k: u64) -> bool {
        k == 0 || self.chunk_end(k - 1) == k
    }

    /// Whether it is about memory of the peer.
    pub fn names_region(&self) -> bool {
        use Verb::*;
        !matches!(self.verb, Send | SendImm | SendInv | Local(_))
    }

    /// Its request packets, a READ counted as one for each READ chunk.
    pub fn packets(&self) -> u64 {
        if self.verb == Verb::Read {
            self.asked.len() as u64 + (self.span - self.asked_end()).div_ceil(self.chunk)
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
