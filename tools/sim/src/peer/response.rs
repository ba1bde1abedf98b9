// SPDX-License-Identifier: GPL-2.0

//! What the foreign peer's responder has to send, and what it may have to send again.

use oxe_proto::wire::Syndrome;

/// A READ or atomic that may be asked for again (IBTA 9.7.5.1.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    pub(super) res: u8,
    pub(super) first: u64,
    pub(super) end: u64,
    /// Of a READ: where the latest duplicate began.
    pub(super) from: u64,
    pub(super) msn: u32,
    /// Of a READ: address, key, length. Of an atomic: nothing, and what it found. Of an ATOMIC
    /// WRITE or FLUSH: neither.
    pub(super) read: Option<(u64, u32, u32)>,
    pub(super) original: Option<u64>,
}

/// Something to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Response {
    /// Packets `next` to `end`, of a READ request that began at packet `from`.
    Read {
        resource: Resource,
        va: u64,
        from: u64,
        next: u64,
        len: u32,
        again: bool,
    },
    Atomic {
        resource: Resource,
        again: bool,
    },
    /// An ACK or NAK for a packet.
    Ack {
        at: u64,
        syndrome: Syndrome,
    },
}
