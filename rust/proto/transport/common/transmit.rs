// SPDX-License-Identifier: GPL-2.0

//! The description of packets to be sent.

use super::attr::MAX_PMTU;
use super::wire::{PacketRepr, Position};

/// The bytes that follow the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// Bytes of a send request's local memory.
    Request {
        /// The request.
        n: u32,
        /// The first byte, counted from the start of the message.
        offset: u32,
        /// The number of bytes; not 0.
        len: u32,
    },
    /// Bytes of this side's memory, for a READ of the peer.
    Read {
        /// The resource for which the key was resolved by `ResponderOps::read_start`.
        res: u8,
        /// The address that the latest `read_start` for it had.
        va: u64,
        /// The key of that `read_start`.
        rkey: u32,
        /// The first byte, counted from `va`.
        offset: u32,
        /// The number of bytes; not 0.
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

/// The part of the transport that made a packet; used to take the packet back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The requester, for send request `n`.
    Request {
        /// The request.
        n: u32,
    },
    /// The responder, as part of the response to a READ or an atomic.
    Response,
    /// The responder, as an ACK or NAK.
    Acknowledge,
}

/// A packet to be sent, or several segments: middle packets of a message. These differ only in the
/// PSN and their part of the payload, and the last one alone may ask for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The complete headers of the first packet, except that AckReq is that of the last one.
    pub header: PacketRepr,
    /// The payload of all packets together; each has an equal part. Pad and ICRC are not included.
    pub payload: Payload,
    /// The part of the transport that made it.
    pub origin: Origin,
    /// The number of packets; not 0.
    pub segments: u16,
}

impl Transmit {
    /// The bytes of payload that each packet has.
    #[inline]
    pub fn segment_size(&self) -> u32 {
        self.payload.len() / u32::from(self.segments.max(1))
    }

    /// Whether these are packets of a response that is longer than one packet of the wire can be.
    /// The packets of a loopback connection are longer.
    #[inline]
    pub(in super::super) fn is_long_response(&self) -> bool {
        self.origin == Origin::Response
            && (self.header.bth.opcode.info().position != Position::Only
                || self.payload.len() > MAX_PMTU)
    }

    /// The rest without the first `done` packets; `None` if nothing is left.
    #[inline]
    pub fn rest(&self, done: u16) -> Option<Transmit> {
        let segments = self.segments.checked_sub(done).filter(|left| *left > 0)?;
        let skip = self.segment_size().wrapping_mul(u32::from(done));
        let mut rest = *self;
        rest.segments = segments;
        rest.header.bth.psn = self.header.bth.psn.add(u32::from(done));
        match &mut rest.payload {
            Payload::None => {}
            Payload::Request { offset, len, .. } | Payload::Read { offset, len, .. } => {
                *offset = offset.wrapping_add(skip);
                *len = len.saturating_sub(skip);
            }
        }
        Some(rest)
    }

    /// The first packet alone.
    pub fn first(&self) -> Transmit {
        let segment_size = self.segment_size();
        let mut first = *self;
        first.segments = 1;
        first.header.bth.ack_req &= self.segments == 1;
        match &mut first.payload {
            Payload::None => {}
            Payload::Request { len, .. } | Payload::Read { len, .. } => *len = segment_size,
        }
        first
    }
}
