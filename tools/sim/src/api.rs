// SPDX-License-Identifier: GPL-2.0

//! The code under test, as the simulator names it.

pub use oxe_proto::transport::{
    AtomicOp, Cause, Connection, Denied, Events, Flags, Instant, Modify, Payload, RecvCompletion,
    RecvStart, Request, Resource, ResponseSink, SendCompletion, SendOp, SendQueue, State, Status,
    Target, Transmit, Verdict,
};
