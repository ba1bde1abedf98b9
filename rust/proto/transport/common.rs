// SPDX-License-Identifier: GPL-2.0

//! The transport's vocabulary, and the parts that several transport services use.
//!
//! - The interface to the owner: [`attr`] and [`state`] of a queue pair, send work requests in
//!   [`request`], packets to be sent in [`transmit`], verdicts and events in [`report`], access to
//!   memory in [`responder_ops`], moments in [`time`]. [`run_state`] says which
//!   context sends for a queue pair. [`connected`] is the interface of RC and UC.
//! - Parts of the services: [`autocork`], [`followers`], [`message_packet`] and [`reassembly`] of
//!   RC and UC, [`unreliable`] of UC and UD, [`qp_state`] of all three. [`notification_point`] is
//!   beside the services; [`reaction_point`] is a part of RC, with its rate in [`dcqcn`].

pub mod attr;
pub mod autocork;
pub mod connected;
pub mod dcqcn;
pub mod followers;
pub mod message_packet;
pub mod notification_point;
pub mod qp_state;
pub mod reaction_point;
pub mod reassembly;
pub mod report;
pub mod request;
pub mod responder_ops;
pub mod run_state;
pub mod state;
pub mod time;
pub mod transmit;
pub mod unreliable;

use super::wire;

pub use attr::{Attr, Invalid, Modify, Pmtu, RemoteAccess, LOOPBACK_MTU};
pub use connected::ConnectedQp;
pub use notification_point::{Arrival, NotificationPoint};
pub use reaction_point::ReactionPoint;
pub use report::{DropReason, Events, Verdict};
pub use request::{
    Flags, PlaceError, Request, RequestQueue, RequesterOps, SendCompletion, SendOp, Status, Streaks,
};
pub use responder_ops::{AccessError, AtomicOp, Flush, RecvCompletion, RecvStart, ResponderOps};
pub use run_state::{Rest, RunState};
pub use state::State;
pub use time::Instant;
pub use transmit::{Origin, Payload, Transmit};

/// The longest message in bytes (IBTA 9.7.2: a message is 0 to 2^31 bytes).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Bytes that an atomic changes and returns (IBTA 9.4.5), and that an ATOMIC WRITE stores
/// (IBTA annex A19.4.2).
pub const ATOMIC_LEN: u32 = 8;
