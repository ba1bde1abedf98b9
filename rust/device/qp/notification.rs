// SPDX-License-Identifier: GPL-2.0

//! CNPs: joins a QP's notification point with its packets.

use super::object::{Inner, Qp};
use crate::device::counters::Count;
use crate::device::packet::tx_batch::Batch;
use crate::device::packet::wire_packet::WirePacket;
use crate::proto::transport::{Arrival, Instant};

/// A packet for `qp` was marked CE. If a CNP is due for it, builds that into `batch`. One that
/// cannot be built or sent is lost, and counted as other packets that are not sent.
///
/// Under the QP's lock. The batch holds no other packets than CNPs.
#[cold]
pub(super) fn notify(
    qp: &Qp,
    inner: &mut Inner,
    now: Instant,
    packet: &WirePacket,
    accepted: bool,
    batch: &mut Batch<'_, Qp>,
) {
    let port = &qp.ctx.port;
    let Some(interval) = port.cnp_interval() else {
        return;
    };
    let arrival = Arrival {
        packet: &packet.repr,
        payload_len: packet.payload_len,
        ecn: packet.ecn,
        accepted,
    };
    let peer = inner.transport.peer();
    let point = &mut inner.notification_point;
    let Some(cnp) = point.on_packet(now, interval, &arrival, peer) else {
        return;
    };
    if inner.transport.notify(&qp.ctx, packet, &cnp, batch).is_ok() {
        port.counters.count(Count::CnpsSent);
    }
}

/// Sends the CNPs of `batch`, if there are any, beside the context that sends for `qp`: they need
/// not be in order with its packets. No lock held.
#[inline]
pub(super) fn send(qp: &Qp, batch: &mut Batch<'_, Qp>) {
    if !batch.is_empty() {
        send_batch(qp, batch);
    }
}

#[cold]
fn send_batch(qp: &Qp, batch: &mut Batch<'_, Qp>) {
    batch.send(&qp.ctx.port);
}
