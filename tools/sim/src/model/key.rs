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

/// What a message tells the program at the other end.
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
