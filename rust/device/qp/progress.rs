// SPDX-License-Identifier: GPL-2.0

//! Inputs of the QP progress engine, and the results of its steps.

use crate::device::counters::Count;
use crate::device::cq::Wake;
use crate::device::packet::rx_batch::RxGroup;
use crate::device::packet::wire_packet::WirePacket;
use crate::proto::transport::{DropReason, Events, Instant};

/// An input of the engine.
pub(crate) enum Input<'a> {
    /// A request was posted, or the QP was modified.
    Doorbell,
    /// The process with the doorbell continues after a reschedule.
    Resume,
    /// Queued work runs, at this time; an expired timer may have queued it.
    Work(Instant),
    /// As `Work`, in process context, where it may continue.
    Bulk,
    /// A process may have posted receives in the error state.
    Sweep,
    /// The QP is about to be reset or destroyed: delayed ACKs and corked requests are sent.
    Flush,
    /// Packets for this QP arrived. A destroyed QP does not take them; they are dropped.
    Packets(&'a mut RxGroup<'a>),
    /// A packet to a multicast group that this QP is attached to arrived.
    Multicast(&'a WirePacket),
}

/// Notifications that are deferred until the lock is released.
#[derive(Default)]
pub(crate) struct Deferred {
    pub(crate) send: Wake,
    pub(crate) recv: Wake,
    pub(crate) events: Events,
    /// The limit of the shared receive queue is reached.
    pub(crate) srq_limit: bool,
}

/// The reason for which a received packet was dropped.
#[derive(Clone, Copy)]
pub(crate) enum Dropped {
    /// The transport dropped it.
    Transport(DropReason),
    /// It is not from the QP's peer, or not for the QP's namespace.
    Address(Count),
}

/// The result of one transport step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is due now.
    Idle,
    /// A request was carried out that sends nothing: others that waited for it may be fetched.
    Refetch,
    /// More is due: the batch was full.
    More,
    /// More is due, but there was no memory for it.
    Stalled,
    /// More is due, but a page of its payload is not present.
    PageFault,
}
