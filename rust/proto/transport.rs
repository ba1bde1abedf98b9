// SPDX-License-Identifier: GPL-2.0

//! The transport layer: what a queue pair does with requests, packets and time.
//!
//! Nothing in here sends, receives, sleeps or allocates. The owner of a queue pair (the driver, or a
//! test) hands in what happened and takes out what is to be done:
//!
//! ```text
//!   posted requests ─┐                       ┌─> Transmit: headers + which bytes follow them
//!   packets ─────────┼──> Connection (RC) ───┼─> SendCompletion, RecvCompletion
//!   time ────────────┘                       └─> Events, the next timeout
//! ```
//!
//! After any call that may have changed something the owner runs [`Connection::poll_transmit`] and
//! [`Connection::poll_send_completion`] until they give `None`, then takes the events and arms its
//! timer for [`Connection::poll_timeout`].
//!
//! Rules are cited as sections of the InfiniBand Architecture Specification, Volume 1 ("IBTA").

pub mod attr;
mod autocork;
mod completer;
mod compose;
pub mod connection;
pub mod datagram;
mod delayed_ack;
mod cwnd;
mod tail_loss;
mod repeat;
mod reply;
pub mod report;
pub mod request;
pub mod requester;
pub mod resource;
pub mod responder;
pub mod state;
pub mod target;
pub mod time;
pub mod transmit;

#[cfg(test)]
mod tests;

use super::wire;

pub use attr::{Access, Attr, Invalid, Modify, Pmtu, LOOPBACK_MTU};
pub use connection::Connection;
pub use datagram::{check_recv, Datagram, DatagramAttr, DatagramRecv, DatagramSender};
pub use cwnd::MAX_CWND;
pub use report::{Cause, Events, Verdict};
pub use request::{Flags, Request, ResponseSink, SendCompletion, SendOp, SendQueue, Status};
pub use requester::Requester;
pub use resource::Resource;
pub use responder::Responder;
pub use state::State;
pub use target::{AtomicOp, Denied, RecvCompletion, RecvStart, Target};
pub use time::Instant;
pub use transmit::{Origin, Payload, Transmit};

/// The longest message in bytes (IBTA 9.7.2: a message is 0 to 2^31 bytes).
pub const MAX_MESSAGE: u32 = 1 << 31;
