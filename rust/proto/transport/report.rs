// SPDX-License-Identifier: GPL-2.0

//! What the transport tells its owner besides packets and completions: what became of a packet, and
//! what happened to the queue pair.

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It did what it was to do.
    Accepted,
    /// It was not carried out; count it under this cause. An answer may be due all the same.
    Dropped(DropReason),
}

/// Why a packet was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// The QP's state does not take such packets.
    State = 0,
    /// The opcode belongs to another transport service than the QP.
    Service = 1,
    /// The P_Key does not match the QP's.
    PKey = 2,
    /// The Q_Key is not the QP's.
    QKey = 3,
    /// The payload is longer than the path MTU (datagrams).
    TooLong = 4,
    /// A request that was carried out before; it is answered again.
    Duplicate = 5,
    /// A repeated READ or atomic of which there is no record, or not this one.
    UnknownDuplicate = 6,
    /// A request ahead of the expected PSN.
    OutOfSequence = 7,
    /// No receive request is posted; the peer was told to try again (RNR NAK).
    NotReady = 8,
    /// Refused with a NAK that ends the connection.
    Refused = 9,
    /// An acknowledgement of nothing that is outstanding.
    Ghost = 10,
    /// A response after a gap, or one with a NAK: something is sent again.
    Gap = 11,
    /// A response that the request did not ask for, or a reserved syndrome.
    BadResponse = 12,
    /// A datagram for which no receive request is posted; it is lost.
    NoReceive = 13,
    /// A datagram longer than the receive request that it would go to; it is lost.
    ReceiveTooShort = 14,
    /// A datagram without the network header that its receive buffer is to begin with.
    NoGrh = 15,
    /// A NAK that was acted upon before, and came again.
    RepeatedNak = 16,
    /// A right response that the requester's own memory did not take.
    Unplaceable = 17,
    /// A repeated READ whose key is no longer valid.
    StaleKey = 18,
    /// A congestion notification, which nothing acts upon (IBTA annex A17.9.3).
    Cnp = 19,
}

impl DropReason {
    /// How many causes there are; each one `as usize` is less.
    pub const COUNT: usize = 20;
}

/// What happened to the queue pair since the owner last asked: a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Events(u8);

impl Events {
    /// Nothing.
    pub const NONE: Events = Events(0);
    /// The send queue is drained (IBTA 11.6.3.2, send queue drained).
    pub const SQ_DRAINED: Events = Events(1 << 0);
    /// The responder refused an invalid request.
    pub const REQ_ERR: Events = Events(1 << 1);
    /// The responder refused access to memory.
    pub const ACCESS_ERR: Events = Events(1 << 2);
    /// The first packet arrived on a QP that is ready to receive (communication established).
    pub const COMM_EST: Events = Events(1 << 3);
    /// The responder failed for local reasons.
    pub const FATAL: Events = Events(1 << 4);
    /// The QP went to the error state: flush the receives and publish the state.
    pub const ENTERED_ERROR: Events = Events(1 << 5);

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether none is set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is set in either.
    #[inline]
    pub const fn union(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }

    /// Adds `other`.
    #[inline]
    pub(super) fn raise(&mut self, other: Events) {
        self.0 |= other.0;
    }
}
