// SPDX-License-Identifier: GPL-2.0

//! What the responder asks of its owner while a request packet is in hand: receive buffers, and
//! access to memory that the peer names.

use super::Status;

/// Why the peer may not do what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The key, the range or the rights are wrong (IBTA 9.7.4.1.5): NAK remote access error.
    Access,
    /// It could not be done for local reasons: NAK remote operational error.
    Op,
    /// The address of an atomic is not a multiple of 8: NAK invalid request.
    Misaligned,
}

/// What a receive queue had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvStart {
    /// A work request, now in use.
    Taken,
    /// Nothing: RNR NAK.
    Empty,
    /// A work request that is garbage, now in use: it completes with this status.
    LocalError(Status),
}

/// An atomic operation; values in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` if `compare` is there.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What to store.
        swap: u64,
    },
    /// Adds to what is there, modulo 2^64.
    FetchAdd {
        /// What to add.
        add: u64,
    },
}

/// The receive work request in use is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// How it ended.
    pub status: Status,
    /// Consumed by a WRITE with immediate; its buffers were not touched.
    pub write_imm: bool,
    /// Bytes of the message.
    pub byte_len: u32,
    /// Immediate data, in the order of the wire.
    pub imm: Option<[u8; 4]>,
    /// The key that the peer invalidated.
    pub inv_rkey: Option<u32>,
    /// The peer asked for a solicited event.
    pub solicited: bool,
}

/// The owner's side of the responder. Every call is about the one request packet in hand.
pub trait ResponderOps {
    /// Takes the next receive work request for a SEND or a WRITE with immediate.
    fn recv_start(&mut self) -> RecvStart;
    /// Puts the whole payload `offset` bytes into the receive request in use.
    ///
    /// # Errors
    ///
    /// [`Status::LocLen`] when it does not fit, [`Status::LocProt`] when the memory is not usable.
    fn recv_place(&mut self, offset: u32) -> Result<(), Status>;
    /// Completes the receive request in use.
    fn recv_done(&mut self, completion: RecvCompletion);
    /// A WRITE of `len` bytes (not 0) begins: resolves the key, once for the message.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses the message.
    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError>;
    /// Puts the whole payload `offset` bytes into the memory that the WRITE in progress named.
    /// Never past its length.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the memory is gone meanwhile.
    fn write_place(&mut self, offset: u32) -> Result<(), AccessError>;
    /// A READ of `len` bytes (not 0) begins, or a part of one begins again: checks the key and
    /// remembers it under `res` in place of what was there.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses the READ.
    fn read_start(&mut self, res: u8, va: u64, rkey: u32, len: u32) -> Result<(), AccessError>;
    /// Carries out an atomic operation; gives the 8 bytes as they were, in host order.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses it.
    fn atomic(&mut self, va: u64, rkey: u32, op: AtomicOp) -> Result<u64, AccessError>;
    /// Invalidates a key for a SEND with invalidate.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when it is none that may be invalidated.
    fn invalidate(&mut self, rkey: u32) -> Result<(), AccessError>;
}
