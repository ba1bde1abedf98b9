// SPDX-License-Identifier: GPL-2.0

//! The description of a packet to be sent.

use super::wire::PacketRepr;

/// The bytes that follow the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// Bytes of a send request's local memory.
    Request {
        /// Which request.
        n: u32,
        /// First byte, counted from the start of the message.
        offset: u32,
        /// How many; not 0.
        len: u32,
    },
    /// Bytes of this side's memory that the peer reads.
    Read {
        /// The resource for which the key was resolved by `Target::read_start`.
        res: u8,
        /// The address that the latest `read_start` for it had.
        va: u64,
        /// The key that it had.
        rkey: u32,
        /// First byte, counted from `va`.
        offset: u32,
        /// How many; not 0.
        len: u32,
    },
}

impl Payload {
    /// Its length in bytes.
    #[inline]
    pub const fn len(&self) -> u32 {
        match *self {
            Payload::None => 0,
            Payload::Request { len, .. } | Payload::Read { len, .. } => len,
        }
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which part of the transport made a packet, for taking it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The requester, for send request `n`.
    Request {
        /// Which request.
        n: u32,
    },
    /// The responder, as part of the answer to a READ or an atomic.
    Response,
    /// The responder, as an ACK or NAK.
    Reply,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its headers, complete.
    pub header: PacketRepr,
    /// What follows them. Pad and ICRC come after that.
    pub payload: Payload,
    /// Who made it.
    pub origin: Origin,
}
