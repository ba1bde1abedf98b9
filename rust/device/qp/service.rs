// SPDX-License-Identifier: GPL-2.0

//! The transport services: how each joins the transport with queues, memory and packets.

pub(crate) mod attr;
pub(crate) mod connected;
mod env;
mod ops;
mod rc;
mod remote;
pub(crate) mod resources;
mod uc;
mod ud;

use super::context::QpContext;
use super::progress::{Deferred, Dropped, Progress};
use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use crate::device::packet::kept::KeptPacket;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::{Batch, NoPacket};
use crate::device::packet::wire_packet::WirePacket;
use crate::device::port::Port;
use crate::device::tuning::Control;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{
    CongestionControl, Connection, EventCounts, Events, Instant, SendCompletion, Snapshot,
    Standard, State, UcQp,
};
use crate::proto::wire::{PacketRepr, Qpn};
use crate::rdma::attr::Mtu;
use crate::rdma::details::Details;
use crate::rdma::qp::{QpAttr, QpQuery, QpType};
use connected::{Connected, Link, Rc, Uc};
use kernel::prelude::*;
use ops::Service;
use resources::{NewResources, Resources};
use ud::Ud;

/// The part of a QP that depends on its transport service.
pub(crate) enum Transport {
    /// RC.
    Rc(Rc),
    /// UC.
    Uc(Uc),
    /// UD and GSI.
    Datagram(Ud),
}

/// Calls the service of a [`Transport`].
macro_rules! dispatch {
    ($transport:expr, $service:ident => $call:expr) => {
        match $transport {
            Transport::Rc($service) => $call,
            Transport::Uc($service) => $call,
            Transport::Datagram($service) => $call,
        }
    };
}

/// The functions of [`Service`], which describes them.
impl Transport {
    /// A QP of this type in the reset state. ENOMEM.
    pub(crate) fn new(kind: QpType, qpn: u32, port: &Port) -> Result<Self> {
        let settings = port.settings();
        Ok(match kind {
            QpType::Rc => {
                let mut conn = Connection::new(Resources::new(0)?);
                conn.keep_responses(settings.keep_responses);
                conn.keep_requests(settings.keep_requests);
                Transport::Rc(Connected::new(conn))
            }
            QpType::Uc => Transport::Uc(Connected::new(UcQp::new())),
            QpType::Ud | QpType::Gsi => Transport::Datagram(Ud::new(qpn)),
        })
    }

    /// A QP that becomes connected is controlled like this; only RC is.
    pub(crate) fn control(&mut self, control: Control) {
        if let Transport::Rc(rc) = self {
            let [requests, responses] = match control.by_delay {
                true => Standard::by_delay(),
                false => [Standard::REQUESTS, Standard::RESPONSES],
            };
            rc.conn.react(control.reaction);
            rc.conn.control(requests, responses);
        }
    }

    /// Whether the peer acknowledges requests: they may wait for a response.
    #[inline]
    pub(crate) fn is_acknowledged(&self) -> bool {
        matches!(self, Transport::Rc(_))
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        dispatch!(self, service => service.state())
    }

    pub(crate) fn fail(&mut self) {
        dispatch!(self, service => service.fail());
    }

    pub(crate) fn modify(
        &mut self,
        qp: &QpContext,
        attr: &QpAttr<'_>,
        resources: Option<NewResources>,
    ) -> Result<Option<NewResources>> {
        dispatch!(self, service => service.modify(qp, attr, resources))
    }

    pub(crate) fn query(&self, path_mtu: Mtu, out: &mut QpQuery<'_>) {
        dispatch!(self, service => service.query(path_mtu, out));
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        dispatch!(self, service => service.snapshot())
    }

    pub(crate) fn details(&self, qp: &QpContext, out: &mut Details) {
        dispatch!(self, service => service.details(qp, out));
    }

    #[inline]
    pub(crate) fn transmit<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        match self {
            Transport::Rc(rc) => rc.transmit(qp, sq, now, batch),
            _ => self.transmit_unacknowledged(qp, sq, now, batch),
        }
    }

    /// Transmits for a service without acknowledgements. A function of its own so that the compiler
    /// does not make one large function of all services.
    #[inline(never)]
    fn transmit_unacknowledged<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        let progress = match self {
            Transport::Rc(_) => Progress::Idle,
            Transport::Uc(uc) => uc.transmit(qp, sq, now, batch),
            Transport::Datagram(ud) => ud.transmit(qp, sq, now, batch),
        };
        // Packets for the wire have their payload; a loopback packet refers to it.
        let waited = batch.loopback.is_empty() && self.release();
        match progress {
            // A local request may have waited for that.
            Progress::Idle if waited && sq.has_barrier() => Progress::Refetch,
            progress => progress,
        }
    }

    #[inline]
    pub(crate) fn handle(
        &mut self,
        qp: &QpContext,
        queues: (&mut SendQueue, &mut RecvQueue),
        now: Instant,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), Dropped> {
        dispatch!(self, service => service.handle(qp, queues, now, packet, deferred))
    }

    /// Whether there are kept packets, whose turn may have come.
    #[inline]
    pub(crate) fn keeps_any(&self) -> bool {
        matches!(self, Transport::Rc(rc) if !rc.link.kept.is_empty())
    }

    /// The kept packet whose turn has come, if there is one: it is to be handled as one that has
    /// just arrived. Frees those that are not needed any more.
    #[cold]
    pub(crate) fn take_kept(&mut self) -> Option<KBox<KeptPacket>> {
        match self {
            Transport::Rc(rc) => rc.take_kept(),
            Transport::Uc(_) | Transport::Datagram(_) => None,
        }
    }

    pub(crate) fn peer(&self) -> Option<Qpn> {
        dispatch!(self, service => service.peer())
    }

    pub(crate) fn notify<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        packet: &WirePacket,
        header: &PacketRepr,
        batch: &mut Batch<'_, Q>,
    ) -> Result<(), NoPacket> {
        dispatch!(self, service => service.notify(qp, packet, header, batch))
    }

    #[inline]
    pub(crate) fn max_segments(&self, repr: &PacketRepr, payload_len: u32, sq: &SendQueue) -> u16 {
        dispatch!(self, service => service.max_segments(repr, payload_len, sq))
    }

    #[inline]
    pub(crate) fn may_transmit(&self, sq: &SendQueue) -> bool {
        dispatch!(self, service => service.may_transmit(sq))
    }

    #[inline]
    pub(crate) fn may_cork(&self) -> bool {
        dispatch!(self, service => service.may_cork())
    }

    #[inline]
    pub(crate) fn is_corked(&mut self, now: Instant, sq: &SendQueue) -> bool {
        dispatch!(self, service => service.is_corked(now, sq))
    }

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        dispatch!(self, service => service.poll_timeout())
    }

    #[inline]
    pub(crate) fn handle_timeout(&mut self, now: Instant, sq: &mut SendQueue) {
        dispatch!(self, service => service.handle_timeout(now, sq));
    }

    #[inline]
    pub(crate) fn flush_delayed(&mut self) {
        dispatch!(self, service => service.flush_delayed());
    }

    #[inline]
    pub(crate) fn poll_send_completion(&mut self, sq: &mut SendQueue) -> Option<SendCompletion> {
        dispatch!(self, service => service.poll_send_completion(sq))
    }

    #[inline]
    pub(crate) fn has_completion(&self) -> bool {
        dispatch!(self, service => service.has_completion())
    }

    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        dispatch!(self, service => service.is_quiet())
    }

    #[inline]
    pub(crate) fn take_events(&mut self) -> Events {
        dispatch!(self, service => service.take_events())
    }

    /// What happened to the requester since the last call, if anything did. Only RC has such
    /// events.
    #[inline]
    pub(crate) fn take_counts(&mut self) -> Option<EventCounts> {
        match self {
            Transport::Rc(rc) => rc.conn.take_counts(),
            _ => None,
        }
    }

    pub(crate) fn link(&mut self) -> Option<&mut Link> {
        dispatch!(self, service => service.link())
    }

    /// Whether a connected QP takes the loopback to QP `qpn` of this device, if that is its peer.
    pub(crate) fn loopback_to(&self, qpn: u32) -> Option<bool> {
        match self {
            Transport::Rc(rc) => rc.loopback_to(qpn),
            Transport::Uc(uc) => uc.loopback_to(qpn),
            Transport::Datagram(_) => None,
        }
    }

    /// Drops the message that is arriving, the packets that are kept, and the references to the
    /// memory that the peer accesses.
    pub(crate) fn abandon_recv(&mut self) {
        dispatch!(self, service => service.abandon_recv());
        if let Some(link) = self.link() {
            link.clear();
        }
    }

    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        dispatch!(self, service => service.release())
    }
}
