// SPDX-License-Identifier: GPL-2.0

//! The RC service.

use super::attr;
use super::connected::{Link, Rc};
use super::ops::Service;
use super::resources::NewResources;
use crate::device::packet::kept::KeptPacket;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::{Batch, NoPacket};
use crate::device::packet::wire_packet::WirePacket;
use crate::device::qp::context::QpContext;
use crate::device::qp::progress::{Deferred, Dropped, Progress};
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{ConnectedQp, Events, Instant, SendCompletion, Snapshot, State};
use crate::proto::wire::{PacketRepr, Qpn};
use crate::rdma::attr::Mtu;
use crate::rdma::details::Details;
use crate::rdma::qp::{QpAttr, QpQuery};
use core::mem::replace;
use kernel::prelude::*;

impl Rc {
    /// See [`Transport::take_kept`](super::Transport::take_kept).
    #[cold]
    pub(super) fn take_kept(&mut self) -> Option<KBox<KeptPacket>> {
        while let Some(psn) = self.conn.take_kept() {
            if let Some(packet) = self.link.kept.take(psn) {
                return Some(packet);
            }
        }
        if !self.conn.keeps_requests() {
            self.link.kept.clear();
        }
        None
    }
}

impl Service for Rc {
    #[inline]
    fn state(&self) -> State {
        self.conn.state()
    }

    fn fail(&mut self) {
        self.fail_connected();
    }

    fn modify(
        &mut self,
        qp: &QpContext,
        attr: &QpAttr<'_>,
        resources: Option<NewResources>,
    ) -> Result<Option<NewResources>> {
        self.modify_connected(qp, attr)?;
        Ok(resources.map(|(resources, keys)| {
            let old = self.conn.replace_resources(resources);
            (old, replace(&mut self.link.read_keys, keys))
        }))
    }

    fn query(&self, path_mtu: Mtu, out: &mut QpQuery<'_>) {
        let attr = self.conn.attr();
        attr::query_connected(attr, path_mtu, self.conn.is_draining(), out);
        out.set_sq_psn(self.conn.requester().next_psn().get());
        out.set_rq_psn(self.conn.responder().expected_psn().get());
        out.set_timeout(attr.timeout);
        out.set_retry_cnt(attr.retry_cnt);
        out.set_rnr_retry(attr.rnr_retry);
        out.set_min_rnr_timer(attr.min_rnr_timer);
        out.set_max_rd_atomic(attr.max_rd_atomic);
    }

    fn details(&self, qp: &QpContext, out: &mut Details) {
        self.link.details(&qp.port, out);
        attr::requester_details(&self.conn.requester().details(self.conn.attr()), out);
        // There is none before the first notification.
        if let Some(rate) = self.conn.reaction().last_rate() {
            out.number(c"rp_rate_mbps", rate / 1_000_000);
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        Some(self.conn.requester().snapshot())
    }

    #[inline]
    fn transmit<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        self.transmit_connected(qp, sq, now, batch)
    }

    #[inline]
    fn handle(
        &mut self,
        qp: &QpContext,
        queues: (&mut SendQueue, &mut RecvQueue),
        now: Instant,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), Dropped> {
        self.handle_connected(qp, queues, now, packet, deferred)
    }

    fn peer(&self) -> Option<Qpn> {
        Some(self.conn.attr().dest_qpn)
    }

    fn notify<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        _packet: &WirePacket,
        header: &PacketRepr,
        batch: &mut Batch<'_, Q>,
    ) -> Result<(), NoPacket> {
        self.notify_connected(qp, header, batch)
    }

    #[inline]
    fn max_segments(&self, repr: &PacketRepr, payload_len: u32, sq: &SendQueue) -> u16 {
        self.conn.max_segments(repr, payload_len, sq)
    }

    #[inline]
    fn may_transmit(&self, sq: &SendQueue) -> bool {
        self.conn.may_transmit(sq)
    }

    #[inline]
    fn may_cork(&self) -> bool {
        self.conn.requester().may_cork()
    }

    #[inline]
    fn is_corked(&mut self, now: Instant, sq: &SendQueue) -> bool {
        self.conn.is_corked(now, sq)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        self.conn.poll_timeout()
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant, sq: &mut SendQueue) {
        self.conn.handle_timeout(now, sq);
    }

    #[inline]
    fn flush_delayed(&mut self) {
        self.conn.flush_delayed();
    }

    #[inline]
    fn poll_send_completion(&mut self, sq: &mut SendQueue) -> Option<SendCompletion> {
        self.conn.poll_send_completion(sq)
    }

    #[inline]
    fn has_completion(&self) -> bool {
        self.conn.requester().has_completion()
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        self.conn.is_quiet()
    }

    #[inline]
    fn take_events(&mut self) -> Events {
        self.conn.take_events()
    }

    #[inline]
    fn release(&mut self) -> bool {
        self.conn.release()
    }

    fn abandon_recv(&mut self) {
        self.conn.abandon_recv();
    }

    fn link(&mut self) -> Option<&mut Link> {
        Some(&mut self.link)
    }
}
