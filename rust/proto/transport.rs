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
//! "READs and atomics" includes ATOMIC WRITEs and FLUSHes, where it is not about data: each has a
//! response of its own, and they count against the same limits (IBTA annex A19.4).
//!
//! Rules are cited by their section of the InfiniBand Architecture Specification, Volume 1
//! ("IBTA"), or of an RFC. "as in" an RFC marks a policy that is modelled after that RFC, and is no
//! rule. `make rules` reads these citations.

pub mod attr;
mod autocork;
mod completer;
pub mod connected;
pub mod connection;
mod cwnd;
pub mod datagram;
mod delayed_ack;
mod duplicate;
mod followers;
mod lent;
pub mod moderation;
pub mod notification;
mod reassembly;
mod recovery;
pub mod report;
pub mod request;
mod request_packet;
pub mod requester;
pub mod resource;
pub mod responder;
pub mod responder_ops;
mod response;
pub mod run_state;
pub mod state;
mod tail_loss;
pub mod time;
pub mod transmit;
pub mod uc;
pub mod ud;
mod unreliable;

#[cfg(test)]
mod tests;

use super::wire;

pub use attr::{Attr, Invalid, Modify, Pmtu, RemoteAccess, LOOPBACK_MTU};
pub use connected::ConnectedQp;
pub use connection::Connection;
pub use cwnd::MAX_CWND;
pub use datagram::{check_recv, Datagram, DatagramAttr, DatagramRecv, DatagramSender};
pub use moderation::{EventModeration, Moderated};
pub use notification::{Ends, Notification};
pub use report::{DropReason, Events, Verdict};
pub use request::{
    Flags, PlaceError, Request, RequestQueue, RequesterOps, SendCompletion, SendOp, Status,
};
pub use requester::Requester;
pub use resource::Resource;
pub use responder::Responder;
pub use responder_ops::{AccessError, AtomicOp, Flush, RecvCompletion, RecvStart, ResponderOps};
pub use run_state::{Rest, RunState};
pub use state::State;
pub use time::Instant;
pub use transmit::{Origin, Payload, Transmit};
pub use uc::UcQp;
pub use ud::{UdDest, UdModify, UdQp, UdRequestQueue, UdResponderOps};

/// The longest message in bytes (IBTA 9.7.2: a message is 0 to 2^31 bytes).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Bytes that an atomic changes and returns (IBTA 9.4.5), and that an ATOMIC WRITE stores
/// (IBTA annex A19.4.2).
pub const ATOMIC_LEN: u32 = 8;
