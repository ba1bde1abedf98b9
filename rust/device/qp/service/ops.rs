// SPDX-License-Identifier: GPL-2.0

//! The interface of a transport service to the QP.

use super::connected::Link;
use super::resources::NewResources;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::{Batch, NoPacket};
use crate::device::packet::wire_packet::WirePacket;
use crate::device::qp::context::QpContext;
use crate::device::qp::progress::{Deferred, Dropped, Progress};
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{Events, Instant, SendCompletion, Snapshot, State};
use crate::proto::wire::{PacketRepr, Qpn};
use crate::rdma::attr::Mtu;
use crate::rdma::details::Details;
use crate::rdma::qp::{QpAttr, QpQuery};
use kernel::prelude::*;

/// A transport service of a QP. All functions are called under the QP's lock. What a service does
/// not have is as the default says: timeouts, delayed ACKs, messages of several packets, a path.
pub(crate) trait Service {
    /// The state.
    fn state(&self) -> State;

    /// Moves to the error state, which any state may become.
    fn fail(&mut self);

    /// Changes attributes and, perhaps, the state; all of it or nothing. `resources` are those for
    /// a new number of READs and atomics of the peer. Returns the ones that are not needed now, to
    /// be dropped without the lock.
    ///
    /// EINVAL for a value out of its range or a transition that the service does not have; see also
    /// `Path::new`.
    fn modify(
        &mut self,
        qp: &QpContext,
        attr: &QpAttr<'_>,
        resources: Option<NewResources>,
    ) -> Result<Option<NewResources>>;

    /// Writes the service's attributes. `path_mtu` is the path MTU as it was set.
    fn query(&self, path_mtu: Mtu, out: &mut QpQuery<'_>);

    /// Writes details for `rdma resource show`, where it has any.
    fn details(&self, _qp: &QpContext, _out: &mut Details) {}

    /// The requester, for traces, where the service has one that recovers losses.
    fn snapshot(&self) -> Option<Snapshot> {
        None
    }

    /// Builds packets until none is due or the batch is full.
    fn transmit<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress;

    /// Processes a received packet.
    ///
    /// # Errors
    ///
    /// The reason for which it is dropped, under which the caller counts it.
    fn handle(
        &mut self,
        qp: &QpContext,
        queues: (&mut SendQueue, &mut RecvQueue),
        now: Instant,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), Dropped>;

    /// The destination QP, if the service has one for all packets.
    fn peer(&self) -> Option<Qpn> {
        None
    }

    /// Builds the CNP `header` for `packet`, which was accepted. The CNP is the only packet of
    /// `batch`, or among CNPs.
    ///
    /// # Errors
    ///
    /// It was not built, which the batch has counted; or this end has no path to the sender.
    fn notify<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        packet: &WirePacket,
        header: &PacketRepr,
        batch: &mut Batch<'_, Q>,
    ) -> Result<(), NoPacket>;

    /// How many packets like this one, the first, [`Service::handle`] processes as one.
    fn max_segments(&self, _repr: &PacketRepr, _payload_len: u32, _sq: &SendQueue) -> u16 {
        1
    }

    /// Whether there may be packets to send, other than for requests that were not fetched.
    fn may_transmit(&self, _sq: &SendQueue) -> bool {
        false
    }

    /// Whether [`Service::is_corked`] may be true for what was just posted.
    fn may_cork(&self) -> bool {
        false
    }

    /// Whether nothing is due before the timeout, as requests that were posted wait for others.
    fn is_corked(&mut self, _now: Instant, _sq: &SendQueue) -> bool {
        false
    }

    /// The time of the next timeout.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// It is `now`: carries out what is due.
    fn handle_timeout(&mut self, _now: Instant, _sq: &mut SendQueue) {}

    /// Delayed ACKs and corked requests are due now.
    fn flush_delayed(&mut self) {}

    /// The completion of the oldest request, if it is complete.
    fn poll_send_completion(&mut self, sq: &mut SendQueue) -> Option<SendCompletion>;

    /// Whether a request was completed by a packet, and its completion was not polled.
    fn has_completion(&self) -> bool {
        false
    }

    /// Whether it is known that there is neither a completion nor an event to be polled for, nor a
    /// receive to be flushed.
    fn is_quiet(&self) -> bool {
        false
    }

    /// The events since the last call.
    fn take_events(&mut self) -> Events;

    /// No packet refers to the payload of a request any more. Returns whether requests may have
    /// waited for that.
    fn release(&mut self) -> bool;

    /// Drops the message that is arriving.
    fn abandon_recv(&mut self) {}

    /// The path and the memory of a connection.
    fn link(&mut self) -> Option<&mut Link> {
        None
    }
}
