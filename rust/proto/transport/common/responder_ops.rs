// SPDX-License-Identifier: GPL-2.0

//! The calls of the responder to its owner while it handles a request packet: receive buffers, and
//! access to memory that the peer names.

use super::wire::PacketRepr;
use super::{PlaceError, Status};

/// The reason for refusing an access of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The key, the range or the rights are wrong (IBTA 9.7.4.1.5): NAK remote access error.
    Access,
    /// It failed for local reasons: NAK remote operational error.
    Op,
    /// The address of an atomic or an ATOMIC WRITE is not a multiple of 8: NAK invalid request.
    Misaligned,
    /// A page is not present: RNR NAK. Nothing is wrong, and the peer tries again.
    NotPresent,
}

/// The result of taking a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvStart {
    /// A work request was taken, and is in use now.
    Taken,
    /// The queue is empty: RNR NAK.
    Empty,
    /// An invalid work request was taken, and is in use now: it completes with this status.
    LocalError(Status),
}

/// An atomic operation; values in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` if the memory holds `compare`.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds to the value in memory, modulo 2^64.
    FetchAdd {
        /// The value to add.
        add: u64,
    },
}

/// A FLUSH (IBTA annex A19.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Key of the region or window.
    pub rkey: u32,
    /// The first address and the length of the range; `None` for the whole region. The length may
    /// be 0.
    pub range: Option<(u64, u32)>,
    /// Global visibility is asked for.
    pub global: bool,
    /// Persistence is asked for.
    pub persistent: bool,
}

/// The completion of the receive work request in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// Its status.
    pub status: Status,
    /// Consumed by a WRITE with immediate; its buffers were not touched.
    pub write_imm: bool,
    /// Bytes of the message.
    pub byte_len: u32,
    /// Immediate data, in wire order.
    pub imm: Option<[u8; 4]>,
    /// The key that the peer invalidated.
    pub inv_rkey: Option<u32>,
    /// The peer asked for a solicited event.
    pub solicited: bool,
}

/// The owner's side of the responder. Every call is about the request packet that is being handled.
pub trait ResponderOps {
    /// Takes the next receive work request for a SEND or a WRITE with immediate. One that was taken
    /// and not completed may be taken again: by UC, and by RC after [`PlaceError::NotPresent`].
    fn recv_start(&mut self) -> RecvStart;
    /// Copies the whole payload to byte `offset` of the receive request in use.
    ///
    /// # Errors
    ///
    /// [`Status::LocLen`] when it does not fit, [`Status::LocProt`] when the memory is not usable,
    /// [`PlaceError::NotPresent`].
    fn recv_place(&mut self, offset: u32) -> Result<(), PlaceError>;
    /// Completes the receive request in use.
    fn recv_done(&mut self, completion: RecvCompletion);
    /// Begins a WRITE of `len` bytes (not 0): resolves the key, once for the message.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses the message.
    fn write_start(&mut self, va: u64, rkey: u32, len: u32) -> Result<(), AccessError>;
    /// Copies the whole payload to byte `offset` of the memory that the WRITE in progress named.
    /// The responder never exceeds its length.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the memory was deregistered meanwhile.
    fn write_place(&mut self, offset: u32) -> Result<(), AccessError>;
    /// Begins a READ of `len` bytes (not 0), or repeats a part of one: checks the key and remembers
    /// it under `res` in place of the previous one.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses the READ.
    fn read_start(&mut self, res: u8, va: u64, rkey: u32, len: u32) -> Result<(), AccessError>;
    /// Carries out an atomic operation; returns the original 8 bytes, in host order.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses it.
    fn atomic(&mut self, va: u64, rkey: u32, op: AtomicOp) -> Result<u64, AccessError>;
    /// Stores the payload, which has 8 bytes, at `va` by one store, so that no access finds a part
    /// of it (IBTA annex A19.4.2). `va` is a multiple of 8. Payloads that were placed before are
    /// visible before it.
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses it.
    fn atomic_write(&mut self, va: u64, rkey: u32) -> Result<(), AccessError>;
    /// Carries out a FLUSH: on return all earlier accesses to the memory are visible to all
    /// processors and devices, or persistent, as the peer asks (IBTA annex A19.4.1).
    ///
    /// # Errors
    ///
    /// [`AccessError`] refuses it.
    fn flush(&mut self, flush: &Flush) -> Result<(), AccessError>;
    /// Invalidates a key for a SEND with invalidate.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the key is not one that may be invalidated.
    fn invalidate(&mut self, rkey: u32) -> Result<(), AccessError>;
    /// Keeps a copy of the packet, whose headers are `pkt`, until
    /// [`Connection::take_kept`](super::super::Connection::take_kept) asks for it. Returns whether
    /// it does: one that does not, for want of memory, loses nothing but time.
    fn keep(&mut self, _pkt: &PacketRepr) -> bool {
        false
    }
}
