// SPDX-License-Identifier: GPL-2.0

//! Reports of the transport to its owner besides packets and completions: the verdict on a packet,
//! and the events of the queue pair.

use super::wire::counted;

/// The transport's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The packet was accepted and carried out.
    Accepted,
    /// The packet was not carried out. The owner counts it under this reason. A response may be due
    /// all the same.
    Dropped(DropReason),
}

counted! {
    /// The reason that a packet was not carried out.
    pub enum DropReason {
        /// The QP's state does not take such packets.
        State = c"rcvd_qp_state",
        /// The opcode belongs to another transport service than the QP.
        Service = c"rcvd_wrong_service",
        /// The P_Key does not match the QP's.
        PKey = c"rcvd_bad_pkey",
        /// The Q_Key is not the QP's.
        QKey = c"rcvd_bad_qkey",
        /// The payload is longer than the path MTU (datagrams).
        TooLong = c"rcvd_too_long",
        /// A request that was carried out before; an RC responder responds again. For UC the
        /// beginning of a message that has arrived before, or late.
        Duplicate = c"duplicate_request",
        /// A duplicate READ or atomic without a matching responder resource.
        UnknownDuplicate = c"unknown_duplicate",
        /// A request ahead of the expected PSN; for UC one of a message that was dropped.
        OutOfSequence = c"out_of_seq_request",
        /// No receive request is posted; the peer gets an RNR NAK and tries again.
        NotReady = c"sent_rnr_err",
        /// Refused: RC sends a NAK, which ends the connection, and UC drops the message.
        Refused = c"refused_request",
        /// An acknowledgement of nothing that is outstanding.
        Ghost = c"ghost_ack",
        /// A response, ACK or NAK after a lost response: the requester retransmits.
        Gap = c"response_gap",
        /// A response that the request did not ask for, or a reserved syndrome.
        BadResponse = c"bad_response",
        /// A datagram, or message of UC, for which no receive request is posted; it is lost.
        NoReceive = c"out_of_buffer",
        /// A datagram, or message of UC, longer than the receive request that it would go to; it is
        /// lost.
        ReceiveTooShort = c"rcvd_longer_than_buffer",
        /// A datagram without the IP header for the GRH area of its receive buffer.
        NoGrh = c"rcvd_no_grh",
        /// A NAK that was handled before, and came again.
        RepeatedNak = c"duplicate_nak",
        /// A valid response that could not be stored in the requester's memory.
        Unplaceable = c"response_place_err",
        /// A duplicate READ whose key is no longer valid.
        StaleKey = c"duplicate_read_denied",
        /// A congestion notification (CNP, IBTA annex A17.9.3), to which the QP does not react.
        Cnp = c"rp_cnp_ignored",
        /// A page of the memory that it is about is not present (on-demand paging). The requester
        /// sends it again, after an RNR NAK if it is a request; a message of UC and a datagram are
        /// lost.
        NotPresent = c"page_fault",
        /// A request of a peer that has acknowledged a message before it was delivered: its
        /// completion, which is held, comes first. The peer sends the request again.
        EarlyAck = c"early_ack",
    }
}

/// The events of the queue pair since the owner last took them: a set of flags.
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

    /// The QP takes no more WQEs from its shared receive queue (IBTA 11.6.3.2, last WQE reached).
    pub const LAST_WQE: Events = Events(1 << 6);

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

    /// The events that are set in either.
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
