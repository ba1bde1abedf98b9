// SPDX-License-Identifier: GPL-2.0

//! The code under test, as the simulator names it.

pub use oxe_proto::transport::{
    AccessError, AtomicOp, ConnectedQp, Connection, DropReason, Events, Flags, Flush, Instant,
    Modify, Payload, PlaceError, RecvCompletion, RecvStart, Request, RequestQueue, RequesterOps,
    Resource, ResponderOps, SendCompletion, SendOp, State, Status, Streaks, Transmit, Verdict,
};
