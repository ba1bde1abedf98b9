// SPDX-License-Identifier: GPL-2.0

//! The keys of fast-registered regions, as requests use them.

/// A region as a REG_MR describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastReg {
    pub rkey: u32,
    pub va: u64,
    /// Where it begins in the inbox.
    pub offset: usize,
    pub len: usize,
}

/// What a message says to the program at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The key may be used.
    Granted(FastReg),
    /// The sender is done with the receiver's key.
    Done,
    /// The key has ended.
    Gone(FastReg),
}

/// What a request has to do with keys of fast-registered regions, but for the key that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    pub note: Option<Note>,
    /// The local key of the memory of a READ.
    pub lkey: Option<u32>,
    /// The READ ends that key.
    pub ends: bool,
}

/// The life of a key, as its owner sees it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Phase {
    /// There is none.
    #[default]
    None,
    /// REG_MR is posted.
    Registered(FastReg),
    /// The peer knows it, or will.
    Granted(FastReg),
    /// The peer is done with it.
    Returned(FastReg),
    /// A READ into its memory is posted.
    Read(FastReg),
    /// Its end is posted; only a fenced request waits for it if the flag is set.
    Ended(FastReg, bool),
}

/// The fast-registered region of one end of a connection, and what it knows of the peer's.
#[derive(Debug, Default)]
pub struct Fast {
    /// The upper 24 bits of all keys of its region, if it has one.
    pub index: Option<u32>,
    /// The low byte of the next one.
    pub low: u8,
    /// The life of the latest key.
    pub phase: Phase,
    /// The key of the peer that it may use, and the last one that has ended.
    pub peer_key: Option<FastReg>,
    pub ended_key: Option<FastReg>,
    /// Requests of this life with a key of the peer, and of these with one that has ended.
    pub used: u64,
    pub misused: u64,
}
