// SPDX-License-Identifier: GPL-2.0

//! The UD service, also of the management QP (GSI): joins the transport with the queues, memory and
//! packets of a datagram QP.

use crate::device::counters::Count;
use crate::device::cq::completion::Completion;
use crate::device::mem::error::MemError;
use crate::device::mem::payload::PayloadError;
use crate::device::packet::gso::Packets;
use crate::device::packet::loopback::{LoopbackOrigin, LoopbackPacket};
use crate::device::packet::path::Path;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::{Batch, NoPacket};
use crate::device::packet::wire_packet::WirePacket;
use crate::device::qp::context::QpContext;
use crate::device::qp::progress::{Deferred, Dropped, Progress};
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::device::qp::service::attr::datagram_change;
use crate::device::qp::service::ops::Service;
use crate::device::qp::service::resources::NewResources;
use crate::device::qp::trace;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{
    Events, Instant, Origin, PlaceError, RecvCompletion, RecvStart, SendCompletion, State,
    Transmit, UdModify, UdQp, UdResponderOps, Verdict,
};
use crate::proto::wire::{PKey, PacketRepr, Qpn, GRH_LEN};
use crate::rdma::attr::Mtu;
use crate::rdma::port::DEFAULT_PKEY;
use crate::rdma::qp::{QpAttr, QpQuery};
use crate::rdma::strided::StridedSrc;
use kernel::prelude::*;

/// The state of a datagram QP.
pub(crate) struct Ud {
    pub(crate) qp: UdQp,
}

impl Ud {
    /// A QP in the reset state.
    pub(crate) fn new(qpn: u32) -> Self {
        Ud {
            qp: UdQp::new(Qpn::new(qpn), PKey::new(DEFAULT_PKEY)),
        }
    }
}

impl Service for Ud {
    #[inline]
    fn state(&self) -> State {
        self.qp.state()
    }

    fn fail(&mut self) {
        let state = Some(State::Err);
        let _ = self.qp.modify(&UdModify {
            state,
            ..UdModify::default()
        });
    }

    fn modify(
        &mut self,
        _qp: &QpContext,
        attr: &QpAttr<'_>,
        resources: Option<NewResources>,
    ) -> Result<Option<NewResources>> {
        let change = datagram_change(attr);
        self.qp.modify(&change).map_err(|_| EINVAL)?;
        Ok(resources)
    }

    fn query(&self, _path_mtu: Mtu, out: &mut QpQuery<'_>) {
        out.set_qkey(self.qp.qkey());
        out.set_sq_psn(self.qp.next_psn().get());
    }

    #[inline]
    fn transmit<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        _now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        // The MTU of the netdev is read once, and only if there is a datagram to send.
        let mut mtu = None;
        while self.qp.may_send() {
            if batch.is_full() {
                return Progress::More;
            }
            if batch.must_wait() {
                return Progress::Idle;
            }
            let port_mtu = || *mtu.get_or_insert_with(|| qp.port.mtu());
            let Some(transmit) = self.qp.poll_transmit(port_mtu, sq) else {
                return Progress::Idle;
            };
            match send(qp, sq, &transmit, batch) {
                Ok(()) => {}
                // Lost, like any other datagram.
                Err(NoPacket::NoRoute) => batch.skip(),
                Err(NoPacket::NoMemory) => {
                    self.qp.undo(&transmit);
                    return Progress::Stalled;
                }
                Err(NoPacket::Payload(MemError::NotPresent)) => {
                    self.qp.undo(&transmit);
                    return Progress::PageFault;
                }
                Err(NoPacket::Payload(why)) => self.qp.local_error(&transmit, why.into()),
            }
        }
        Progress::Idle
    }

    #[inline]
    fn handle(
        &mut self,
        qp: &QpContext,
        (_, rq): (&mut SendQueue, &mut RecvQueue),
        _now: Instant,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), Dropped> {
        if !qp.may_receive_in(packet.namespace()) {
            return Err(Dropped::Address(Count::WrongNamespace));
        }
        let mut env = Env {
            qp,
            packet,
            rq,
            deferred,
        };
        match self
            .qp
            .handle_packet(packet.repr(), packet.payload_len(), &mut env)
        {
            Verdict::Accepted => Ok(()),
            Verdict::Dropped(cause) => Err(Dropped::Transport(cause)),
        }
    }

    fn notify<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        packet: &WirePacket,
        header: &PacketRepr,
        batch: &mut Batch<'_, Q>,
    ) -> Result<(), NoPacket> {
        let dest = header.bth.dest_qp.get();
        let path = Path::of_cnp(&qp.port, packet, qp.qpn, dest);
        let mut path = path.map_err(|_| {
            qp.port.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        batch.add_single(&qp.port, &mut path, header)
    }

    #[inline]
    fn poll_send_completion(&mut self, sq: &mut SendQueue) -> Option<SendCompletion> {
        self.qp.poll_send_completion(sq)
    }

    #[inline]
    fn take_events(&mut self) -> Events {
        self.qp.take_events()
    }

    #[inline]
    fn release(&mut self) -> bool {
        self.qp.release()
    }
}

/// Builds the packet of a datagram, or queues a loopback packet in its place.
#[inline]
fn send<Q: TxLimitHandler>(
    qp: &QpContext,
    sq: &SendQueue,
    transmit: &Transmit,
    batch: &mut Batch<'_, Q>,
) -> Result<(), NoPacket> {
    let Origin::Request { n } = transmit.origin else {
        return Err(NoPacket::Payload(MemError::Revoked));
    };
    let ah = sq.ah(n).ok_or(NoPacket::Payload(MemError::Revoked))?;
    let len = transmit.payload.len();
    let wire_len = transmit.header.wire_len(len as usize);
    let sender = ah.with_path(|path| {
        let back = path.latch_local(&qp.port);
        back.then(|| LoopbackOrigin::datagram(path, wire_len))
    });
    let Some(sender) = sender else {
        let packets = Packets::one(&transmit.header, len);
        let built = ah.with_path(|path| {
            batch.add(
                &qp.port,
                path,
                &packets,
                || 0,
                |_, len, out| sq.gather(n, 0, len, out),
            )
        });
        built.map_err(|unsent| unsent.why)?;
        trace::transmit(qp, transmit, 1, false);
        return Ok(());
    };
    let loopback = &mut batch.loopback;
    loopback
        .reserve(sq.payer())
        .map_err(|_| NoPacket::NoMemory)?;
    let source = match sq.source(n, 0, len) {
        Ok(source) => source,
        Err(PayloadError::NoMemory) => return Err(NoPacket::NoMemory),
        Err(PayloadError::Gone(why)) => return Err(NoPacket::Payload(why)),
    };
    trace::transmit(qp, transmit, 1, true);
    loopback.put(LoopbackPacket {
        repr: transmit.header,
        sender,
        len,
        source,
    });
    Ok(())
}

/// The parts of the QP that the transport uses while it handles a packet.
struct Env<'a> {
    qp: &'a QpContext,
    packet: RxPacket<'a>,
    rq: &'a mut RecvQueue,
    deferred: &'a mut Deferred,
}

impl UdResponderOps for Env<'_> {
    #[inline]
    fn grh(&self) -> Option<[u8; GRH_LEN]> {
        self.packet.grh_area()
    }

    #[inline]
    fn recv_start(&mut self) -> RecvStart {
        self.rq.start(&self.qp.mkeys, &mut self.deferred.srq_limit)
    }

    #[inline]
    fn recv_room(&self) -> u32 {
        self.rq.remaining()
    }

    #[inline]
    fn recv_place(&mut self, grh: &[u8; GRH_LEN]) -> Result<(), PlaceError> {
        self.rq.place(0, StridedSrc::new(grh))?;
        self.packet
            .for_payload(|at, bytes| self.rq.place(at.wrapping_add(GRH_LEN as u32), bytes))
    }

    #[inline]
    fn recv_done(&mut self, done: RecvCompletion, source: Qpn) {
        let Some(wr_id) = self.rq.finish() else {
            return;
        };
        let mut completion = Completion::recv(self.qp.id(), wr_id, &done);
        completion.wc.src_qp = source.get();
        completion.wc.grh = Some(self.packet.network());
        completion.wc.smac = self.packet.source_mac();
        completion.wc.vlan = self.packet.vlan();
        self.deferred.recv.merge(self.qp.complete_recv(&completion));
    }
}
