// SPDX-License-Identifier: GPL-2.0

//! The operations of requests.

use super::key::FastReg;

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

/// A local operation: it sends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Binds a window that no peer knows: only its place among the requests matters.
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

    /// Whether it is a local operation.
    pub fn is_local(self) -> bool {
        matches!(self, Verb::Local(_))
    }
}
