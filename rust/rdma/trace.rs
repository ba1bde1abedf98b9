// SPDX-License-Identifier: GPL-2.0

//! Trace events: what a device does, for tracefs, perf and BPF.
//!
//! An event that nobody traces costs one test of [`is_on`], with which its caller begins. All
//! functions may be called in any context, with any lock held.

use crate::ffi;
use core::ptr::addr_of;
use kernel::str::{CStr, CStrExt as _};

/// The events.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Event {
    /// The driver has taken a work request from the send queue.
    Post = ffi::oxe_trace_event_OXE_TRACE_post,
    /// Packets were built to be sent.
    Transmit = ffi::oxe_trace_event_OXE_TRACE_transmit,
    /// Packets for a QP have arrived.
    Receive = ffi::oxe_trace_event_OXE_TRACE_receive,
    /// A packet was dropped.
    Drop = ffi::oxe_trace_event_OXE_TRACE_drop,
    /// Packets were acknowledged.
    Ack = ffi::oxe_trace_event_OXE_TRACE_ack,
    /// Packets are to be sent again.
    Retransmit = ffi::oxe_trace_event_OXE_TRACE_retransmit,
    /// Packets are to be sent again after a wait.
    Wait = ffi::oxe_trace_event_OXE_TRACE_wait,
    /// A window of the requester changed.
    Window = ffi::oxe_trace_event_OXE_TRACE_window,
    /// A NAK was sent or has arrived.
    Nak = ffi::oxe_trace_event_OXE_TRACE_nak,
    /// The state of a QP changed.
    QpState = ffi::oxe_trace_event_OXE_TRACE_qp_state,
    /// A work request completed.
    Completion = ffi::oxe_trace_event_OXE_TRACE_completion,
    /// A page of a region with on-demand paging was faulted in.
    PageFault = ffi::oxe_trace_event_OXE_TRACE_page_fault,
}

/// Whether one of `events` is traced.
#[inline(always)]
fn traced(events: u32) -> bool {
    // SAFETY: `oxe_traced` is aligned and always there; C writes it with WRITE_ONCE while others
    // read it, so it is read once, as READ_ONCE does.
    let on = unsafe { addr_of!(ffi::oxe_traced).read_volatile() };
    on & events != 0
}

/// Whether someone traces this event.
#[inline(always)]
pub(crate) fn is_on(event: Event) -> bool {
    traced(1 << event as u32)
}

/// Whether someone traces an event of a requester that changed: see [`requester`].
#[inline(always)]
pub(crate) fn requester_is_on() -> bool {
    const EVENTS: u32 = 1 << Event::Ack as u32
        | 1 << Event::Retransmit as u32
        | 1 << Event::Wait as u32
        | 1 << Event::Window as u32;
    traced(EVENTS)
}

/// Whether someone traces packets in this direction, or NAKs: see [`packet`].
#[inline(always)]
pub(crate) fn packets_are_on(sent: bool) -> bool {
    let event = match sent {
        true => Event::Transmit,
        false => Event::Receive,
    };
    traced(1 << event as u32 | 1 << Event::Nak as u32)
}

/// A QP, as traces name it.
#[derive(Clone, Copy)]
pub(crate) struct TracedQp<'a> {
    /// The netdev's name when the device was made.
    pub(crate) netdev: &'a CStr,
    /// The QP's number; 0 for a packet that names none.
    pub(crate) qpn: u32,
}

impl TracedQp<'_> {
    fn raw(&self) -> ffi::oxe_trace_qp {
        ffi::oxe_trace_qp {
            netdev: self.netdev.as_char_ptr(),
            qpn: self.qpn,
        }
    }
}

/// A packet, or several that differ in PSN and payload alone.
#[derive(Clone, Copy)]
pub(crate) struct TracedPacket {
    /// The BTH's destination QP.
    pub(crate) dest_qpn: u32,
    /// The first PSN.
    pub(crate) psn: u32,
    /// The payload of all packets, in bytes.
    pub(crate) len: u32,
    /// How many packets.
    pub(crate) packets: u16,
    /// The BTH's opcode.
    pub(crate) opcode: u8,
    /// The AETH's syndrome; 0 if there is no AETH.
    pub(crate) syndrome: u8,
    /// The last one asks for an acknowledgement.
    pub(crate) ack_req: bool,
    /// It stays within the device.
    pub(crate) loopback: bool,
}

/// Traces a work request that was taken from the send queue. `opcode`: enum ib_wr_opcode; `len` in
/// bytes.
#[cold]
pub(crate) fn post(qp: &TracedQp<'_>, wr_id: u64, opcode: u32, len: u32) {
    // SAFETY: the QP's name ends with a zero and lives until the call returns.
    unsafe { ffi::oxe_trace_emit_post(&qp.raw(), wr_id, opcode, len) };
}

/// Traces packets that were built to be sent, or else have arrived.
#[cold]
pub(crate) fn packet(qp: &TracedQp<'_>, packet: &TracedPacket, sent: bool) {
    let raw = ffi::oxe_trace_packet {
        dest_qpn: packet.dest_qpn,
        psn: packet.psn,
        len: packet.len,
        packets: packet.packets,
        opcode: packet.opcode,
        syndrome: packet.syndrome,
        ack_req: packet.ack_req,
        loopback: packet.loopback,
    };
    // SAFETY: as in `post`; `raw` lives until the call returns.
    unsafe { ffi::oxe_trace_emit_packet(&qp.raw(), &raw, sent) };
}

/// A counter's name has fewer bytes than this.
pub(crate) const NAME_SIZE: usize = ffi::OXE_TRACE_NAME_SIZE as usize;

/// Traces a packet that was dropped, and counted as `counter`.
#[cold]
pub(crate) fn drop(qp: &TracedQp<'_>, counter: &'static CStr) {
    // SAFETY: as in `post`; the counter's name ends with a zero, too.
    unsafe { ffi::oxe_trace_emit_drop(&qp.raw(), counter.as_char_ptr()) };
}

/// Why a requester changed.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Cause {
    /// A response, or an ACK.
    Ack = ffi::oxe_trace_cause_OXE_CAUSE_ACK,
    /// The ACK timeout.
    Timeout = ffi::oxe_trace_cause_OXE_CAUSE_TIMEOUT,
    /// The probe timeout.
    Probe = ffi::oxe_trace_cause_OXE_CAUSE_PROBE,
    /// A NAK: the responder misses a packet.
    Sequence = ffi::oxe_trace_cause_OXE_CAUSE_SEQUENCE,
    /// A response after a lost one.
    Response = ffi::oxe_trace_cause_OXE_CAUSE_RESPONSE,
    /// An RNR NAK.
    Rnr = ffi::oxe_trace_cause_OXE_CAUSE_RNR,
    /// A page that a response goes to is not present.
    Page = ffi::oxe_trace_cause_OXE_CAUSE_PAGE,
}

/// A requester after it changed.
#[derive(Clone, Copy)]
pub(crate) struct TracedRequester {
    pub(crate) cause: Cause,
    /// The oldest PSN that is not acknowledged.
    pub(crate) psn: u32,
    /// How many PSNs were acknowledged just now.
    pub(crate) acked: u32,
    /// The window of outstanding READ responses, in PSNs.
    pub(crate) read_window: u32,
    /// The smoothed round trip time in nanoseconds; 0 before the first sample.
    pub(crate) srtt: u64,
    /// Request packets that were sent and are not acknowledged.
    pub(crate) in_flight: u16,
    /// The congestion window, in request packets.
    pub(crate) cwnd: u16,
    /// The slow start threshold, in request packets.
    pub(crate) ssthresh: u16,
    /// Retransmissions without progress.
    pub(crate) retries: u8,
    /// RNR NAKs without progress.
    pub(crate) rnr_retries: u8,
}

/// Traces that a requester changed: one of the events of [`requester_is_on`].
#[cold]
pub(crate) fn requester(qp: &TracedQp<'_>, event: Event, now: &TracedRequester) {
    let raw = ffi::oxe_trace_requester {
        srtt_ns: now.srtt,
        psn: now.psn,
        acked: now.acked,
        read_window: now.read_window,
        in_flight: now.in_flight,
        cwnd: now.cwnd,
        ssthresh: now.ssthresh,
        retries: now.retries,
        rnr_retries: now.rnr_retries,
        cause: now.cause as u8,
    };
    // SAFETY: as in `packet`.
    unsafe { ffi::oxe_trace_emit_requester(&qp.raw(), &raw, event as u32) };
}

/// Traces that the state of `qp` changed, by the numbers of enum ib_qp_state. `cause`: why it is in
/// error, or nothing.
#[cold]
pub(crate) fn qp_state(qp: &TracedQp<'_>, from: u32, to: u32, cause: &CStr) {
    // SAFETY: as in `drop`.
    unsafe { ffi::oxe_trace_emit_qp_state(&qp.raw(), from, to, cause.as_char_ptr()) };
}

/// Traces a completion. `opcode`: enum ib_wc_opcode; `status`: enum ib_wc_status; `len` in bytes.
#[cold]
pub(crate) fn completion(qp: &TracedQp<'_>, wr_id: u64, opcode: u32, status: u32, len: u32) {
    // SAFETY: as in `post`.
    unsafe { ffi::oxe_trace_emit_completion(&qp.raw(), wr_id, opcode, status, len) };
}

/// Traces that pages were faulted in: `len` bytes from `address` on, of the process's memory, for
/// writing if `write`. `present`: all of them are there now.
#[cold]
pub(crate) fn page_fault(address: u64, len: u64, write: bool, present: bool) {
    // SAFETY: the call has no requirements.
    unsafe { ffi::oxe_trace_emit_page_fault(address, len, write, present) };
}
