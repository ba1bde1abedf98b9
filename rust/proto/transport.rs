// SPDX-License-Identifier: GPL-2.0

//! The transport layer: the protocol of a queue pair, driven by requests, packets and time.
//!
//! Nothing in here sends, receives, sleeps or allocates. The owner of a queue pair (the driver, the
//! simulator or a test) passes inputs to it and polls its outputs:
//!
//! ```text
//!   posted requests ─┐                       ┌─> Transmit: headers + which bytes follow them
//!   packets ─────────┼──> Connection (RC) ───┼─> SendCompletion, RecvCompletion
//!   time ────────────┘                       └─> Events, the next timeout
//! ```
//!
//! [`UcQp`] (UC) works in the same way, and so does [`UdQp`] (UD, GSI), without time. After any
//! call to a [`Connection`] that may have changed something the owner runs
//! [`ConnectedQp::poll_transmit`] and [`ConnectedQp::poll_send_completion`] until they give `None`,
//! then takes the events and arms its timer for [`Connection::poll_timeout`].
//!
//! [`common`] has the words of this interface and the parts that several services use. The services
//! are [`rc`], [`uc`] and [`ud`]; they do not know each other. [`cq`] is about the events of
//! completion queues.
//!
//! "READs and atomics" includes ATOMIC WRITEs and FLUSHes, where it is not about data: each has a
//! response of its own, and they count against the same limits (IBTA annex A19.4).
//!
//! Rules are cited by their section of the InfiniBand Architecture Specification, Volume 1
//! ("IBTA"), or of an RFC. "as in" an RFC marks a policy that is modelled after that RFC, and is no
//! rule. `make rules` reads these citations.

pub mod common;
pub mod cq;
pub mod rc;
pub mod uc;
pub mod ud;

#[cfg(test)]
mod tests;

use super::wire;

pub use common::dcqcn::{Param, Params};
pub use common::{
    time, AccessError, Arrival, AtomicOp, Attr, ConnectedQp, DropReason, Events, Flags, Flush,
    Instant, Invalid, Modify, NotificationPoint, Origin, Payload, PlaceError, Pmtu, ReactionPoint,
    RecvCompletion, RecvStart, RemoteAccess, Request, RequestQueue, RequesterOps, ResponderOps,
    Rest, RunState, SendCompletion, SendOp, State, Status, Streaks, Transmit, Verdict, ATOMIC_LEN,
    LOOPBACK_MTU, MAX_MESSAGE,
};
pub use cq::{Armed, Ends, EventModeration, Moderated, Notification};
pub use rc::{
    Ack, Cause, Change, CongestionControl, Connection, Cubic, Delay, DelayBased, EventCounts, Loss,
    Requester, RequesterDetails, RequesterEvent, Resource, Responder, Snapshot, Standard, Trigger,
    KEPT_SPAN,
};
pub use uc::UcQp;
pub use ud::{
    check_recv, Datagram, DatagramAttr, DatagramRecv, DatagramSender, UdDest, UdModify, UdQp,
    UdRequestQueue, UdResponderOps,
};
