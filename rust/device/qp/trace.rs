// SPDX-License-Identifier: GPL-2.0

//! The trace events of a queue pair. Each costs one test while it is off. Called under the QP's
//! lock.

use super::context::QpContext;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::uabi::wqe::Op;
use crate::proto::transport::{Cause, Change, Snapshot, State, Transmit, Trigger};
use crate::rdma::trace::{self, Event, TracedPacket, TracedQp, TracedRequester};
use kernel::str::CStr;

/// The QP, as traces name it.
fn traced(qp: &QpContext) -> TracedQp<'_> {
    qp.port.counters.traced(qp.qpn)
}

/// A work request was taken from the send queue; `len`: its bytes.
#[inline(always)]
pub(super) fn post(qp: &QpContext, wr_id: u64, op: Op, len: u32) {
    if trace::is_on(Event::Post) {
        trace::post(&traced(qp), wr_id, op as u32, len);
    }
}

/// The first `packets` packets of `transmit` were built.
#[inline(always)]
pub(super) fn transmit(qp: &QpContext, transmit: &Transmit, packets: u16, loopback: bool) {
    if trace::packets_are_on(true) {
        note_transmit(qp, transmit, packets, loopback);
    }
}

#[cold]
fn note_transmit(qp: &QpContext, transmit: &Transmit, packets: u16, loopback: bool) {
    let bth = &transmit.header.bth;
    let aeth = transmit.header.ext.aeth();
    let packet = TracedPacket {
        dest_qpn: bth.dest_qp.get(),
        psn: bth.psn.get(),
        len: transmit.segment_size().saturating_mul(packets.into()),
        packets,
        opcode: bth.opcode as u8,
        syndrome: aeth.map_or(0, |aeth| aeth.syndrome.to_u8()),
        ack_req: bth.ack_req && packets == transmit.segments,
        loopback,
    };
    if packets != 0 {
        trace::packet(&traced(qp), &packet, true);
    }
}

/// A packet has arrived.
#[inline(always)]
pub(super) fn receive(qp: &QpContext, packet: &RxPacket<'_>) {
    if trace::packets_are_on(false) {
        note_receive(qp, packet);
    }
}

#[cold]
fn note_receive(qp: &QpContext, packet: &RxPacket<'_>) {
    // One that was kept has been traced when it arrived.
    if matches!(packet, RxPacket::Kept(_)) {
        return;
    }
    let bth = &packet.repr().bth;
    let aeth = packet.repr().ext.aeth();
    let packet = TracedPacket {
        dest_qpn: bth.dest_qp.get(),
        psn: bth.psn.get(),
        len: packet.total_len(),
        packets: packet.count(),
        opcode: bth.opcode as u8,
        syndrome: aeth.map_or(0, |aeth| aeth.syndrome.to_u8()),
        ack_req: bth.ack_req,
        loopback: matches!(packet, RxPacket::Loopback(_)),
    };
    trace::packet(&traced(qp), &packet, false);
}

/// The requester before an input, if its changes are traced.
#[inline(always)]
pub(super) fn before(snapshot: impl FnOnce() -> Option<Snapshot>) -> Option<Snapshot> {
    match trace::requester_is_on() {
        true => snapshot(),
        false => None,
    }
}

/// The requester after `input`; `before` is what [`before`] has returned.
#[inline(always)]
pub(super) fn after(
    qp: &QpContext,
    before: Option<Snapshot>,
    snapshot: impl FnOnce() -> Option<Snapshot>,
    input: Trigger<'_>,
) {
    if let Some(before) = before {
        if let Some(now) = snapshot() {
            changed(qp, &now, &now.since(&before, input));
        }
    }
}

#[cold]
fn changed(qp: &QpContext, now: &Snapshot, change: &Change) {
    let requester = TracedRequester {
        cause: match change.cause {
            Cause::Ack => trace::Cause::Ack,
            Cause::Timeout => trace::Cause::Timeout,
            Cause::Probe => trace::Cause::Probe,
            Cause::Sequence => trace::Cause::Sequence,
            Cause::Response => trace::Cause::Response,
            Cause::Rnr => trace::Cause::Rnr,
            Cause::Page => trace::Cause::Page,
        },
        psn: now.una.get(),
        acked: change.acked,
        read_window: now.read_window,
        srtt: now.srtt,
        in_flight: now.in_flight,
        cwnd: now.cwnd,
        ssthresh: now.ssthresh,
        retries: now.retries,
        rnr_retries: now.rnr_retries,
    };
    let back = match change.cause {
        Cause::Rnr | Cause::Page => Event::Wait,
        _ => Event::Retransmit,
    };
    for (event, due) in [
        (Event::Ack, change.acked != 0),
        (back, change.sends_again),
        (Event::Window, change.windows),
    ] {
        if due {
            trace::requester(&traced(qp), event, &requester);
        }
    }
}

/// The QP's state changed.
#[cold]
pub(super) fn qp_state(qp: &QpContext, from: State, to: State, cause: &CStr) {
    if trace::is_on(Event::QpState) {
        trace::qp_state(&traced(qp), from as u32, to as u32, cause);
    }
}
