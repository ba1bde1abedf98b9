// SPDX-License-Identifier: GPL-2.0

//! One datagram queue pair, UD or GSI: its state, its send queue, and receiving a datagram
//! (IBTA 9.8.3, 10.3.1).
//!
//! A datagram is complete when it is sent, so nothing is retransmitted, and no timer is needed.

pub mod datagram;

use super::common::attr::MAX_PMTU;
use super::common::qp_state::QpState;
use super::common::unreliable::UnreliableQueue;
use super::common::{
    DropReason, Events, Invalid, Origin, Payload, PlaceError, RecvCompletion, RecvStart, Request,
    RequestQueue, SendCompletion, SendOp, State, Status, Transmit, Verdict,
};
use super::wire::{PKey, PacketRepr, Psn, Qpn, GRH_LEN};
use super::{common, wire};

pub use datagram::{check_recv, Datagram, DatagramAttr, DatagramRecv, DatagramSender};

/// The longest datagram that is received, in bytes: the largest path MTU (IBTA 9.8.3).
const MAX_RECV_LEN: u32 = MAX_PMTU;

/// The destination of a datagram, as its send request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// The destination QP.
    pub qpn: u32,
    /// The Q_Key of the destination QP, or any value with [`datagram::QKEY_FROM_QP`].
    pub qkey: u32,
}

/// A send queue of datagrams.
pub trait UdRequestQueue: RequestQueue {
    /// The destination of request `n`. `None` as for [`RequestQueue::get`].
    fn dest(&self, n: u32) -> Option<UdDest>;
}

/// The owner's side of receiving. Every call is about the datagram that is being handled.
pub trait UdResponderOps {
    /// The GRH area, with which the receive buffer begins: the IP header (IBTA annex A17.4.5.2).
    fn grh(&self) -> Option<[u8; GRH_LEN]>;
    /// Takes the next receive work request. One that was taken and not completed is taken again.
    fn recv_start(&mut self) -> RecvStart;
    /// How many bytes the receive request in use holds.
    fn recv_room(&self) -> u32;
    /// Copies `grh` to the beginning of the receive request in use, and the whole payload behind
    /// it.
    ///
    /// # Errors
    ///
    /// [`Status::LocProt`] when the memory is not usable; [`PlaceError::NotPresent`].
    fn recv_place(&mut self, grh: &[u8; GRH_LEN]) -> Result<(), PlaceError>;
    /// Completes the receive request in use, for a datagram from `source`.
    fn recv_done(&mut self, completion: RecvCompletion, source: Qpn);
}

/// Attributes to be changed; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdModify {
    /// The state.
    pub state: Option<State>,
    /// The Q_Key.
    pub qkey: Option<u32>,
    /// The PSN of the next packet.
    pub sq_psn: Option<u32>,
}

/// The protocol state of one datagram queue pair.
///
/// The owner serialises the calls. None of them blocks; all may be made in any context.
#[derive(Debug)]
pub struct UdQp {
    state: QpState,
    src_qpn: Qpn,
    pkey: PKey,
    qkey: u32,
    sender: DatagramSender,
    queue: UnreliableQueue,
}

impl UdQp {
    /// A queue pair in the reset state.
    pub const fn new(src_qpn: Qpn, pkey: PKey) -> Self {
        UdQp {
            state: QpState::RESET,
            src_qpn,
            pkey,
            qkey: 0,
            sender: DatagramSender::new(Psn::ZERO),
            queue: UnreliableQueue::NEW,
        }
    }

    /// The state.
    #[inline]
    pub const fn state(&self) -> State {
        self.state.get()
    }

    /// The Q_Key.
    pub const fn qkey(&self) -> u32 {
        self.qkey
    }

    /// The PSN of the next packet.
    pub const fn next_psn(&self) -> Psn {
        self.sender.next_psn()
    }

    /// Changes attributes and, perhaps, the state: all of it or nothing. In the reset state all
    /// attributes are forgotten, and requests count from 0 again.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when there is no such transition.
    pub fn modify(&mut self, change: &UdModify) -> Result<(), Invalid> {
        let from = self.state.get();
        let to = change.state.unwrap_or(from);
        if change.state.is_some() && !from.may_become(to) {
            return Err(Invalid);
        }
        if change.state == Some(State::Reset) {
            *self = UdQp::new(self.src_qpn, self.pkey);
            return Ok(());
        }
        self.qkey = change.qkey.unwrap_or(self.qkey);
        if let Some(psn) = change.sq_psn {
            self.sender = DatagramSender::new(Psn::new(psn));
        }
        self.state.enter(to);
        self.note_drained();
        Ok(())
    }

    /// See [`QpState::note_drained`]. Datagrams have no responses, so the send queue is drained as
    /// soon as the owner needs no payload any more.
    #[inline]
    fn note_drained(&mut self) {
        self.state.note_drained(self.queue.is_released());
    }

    /// Whether requests may be sent.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.state.is(State::Rts) && !self.queue.has_failed()
    }

    /// The next packet. `mtu` returns the path MTU of the port in bytes; it is called only if there
    /// is a datagram to send. A request counts as sent from then on; see [`UdQp::undo`] and
    /// [`UdQp::local_error`].
    ///
    /// A datagram that is longer fails with LocLen. IBTA has it complete with success and lost
    /// (statement C10-93.1.1), which programs find out too late.
    #[inline]
    pub fn poll_transmit<Q: UdRequestQueue>(
        &mut self,
        mtu: impl FnOnce() -> u32,
        q: &Q,
    ) -> Option<Transmit> {
        let n = self.queue.next();
        let request = q.get(n).filter(|_| self.may_send())?;
        if let Some(status) = request.local_error() {
            self.queue.fail(status);
            return None;
        }
        let datagram = datagram(request, q.dest(n)?);
        let len = request.len;
        let header = match self.sender.build(&self.attr(mtu()), &datagram) {
            Ok(header) => header,
            Err(status) => {
                self.queue.fail(status);
                return None;
            }
        };
        self.queue.advance();
        Some(Transmit {
            header,
            payload: match len {
                0 => Payload::None,
                len => Payload::Request { n, offset: 0, len },
            },
            origin: Origin::Request { n },
            segments: 1,
        })
    }

    /// The packet of `t`, the newest one, was never sent, for example for want of memory.
    /// [`UdQp::poll_transmit`] will return it again.
    pub fn undo(&mut self, t: &Transmit) {
        if let Origin::Request { n } = t.origin {
            self.sender.undo(&t.header);
            self.queue.return_to(n);
        }
    }

    /// The payload of `t`, the newest packet, could not be read, and `t` was not sent: its request
    /// completes with `status`.
    pub fn local_error(&mut self, t: &Transmit, status: Status) {
        if let Origin::Request { n } = t.origin {
            self.queue.return_to(n);
            self.queue.fail(status);
        }
    }

    /// The owner has copied the payload of each packet that was returned: their requests are
    /// complete. Returns whether any was waiting for that.
    #[inline]
    pub fn release(&mut self) -> bool {
        let waited = self.queue.release();
        self.note_drained();
        waited
    }

    /// The next request that is complete: sent, and released ([`UdQp::release`]). A request that
    /// failed takes the send queue to the SQE state, and the requests after it are flushed
    /// (IBTA 10.3.1.6). In the error state all requests are flushed.
    #[inline]
    pub fn poll_send_completion<Q: RequestQueue>(&mut self, q: &Q) -> Option<SendCompletion> {
        self.queue.poll_completion(&mut self.state, q)
    }

    /// Processes a datagram with `payload_len` bytes of payload, which `ops` can access. The caller
    /// has checked everything below the transport: address, length, ICRC.
    #[inline]
    pub fn handle_packet<T: UdResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Verdict {
        match self.receive(pkt, payload_len, ops) {
            Ok(()) => Verdict::Accepted,
            Err(cause) => Verdict::Dropped(cause),
        }
    }

    /// The events since the last call.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        self.state.take_events()
    }

    #[inline]
    const fn attr(&self, mtu: u32) -> DatagramAttr {
        DatagramAttr {
            src_qpn: self.src_qpn,
            qkey: self.qkey,
            pkey: self.pkey,
            mtu,
        }
    }

    #[inline]
    fn receive<T: UdResponderOps>(
        &mut self,
        pkt: &PacketRepr,
        payload_len: u32,
        ops: &mut T,
    ) -> Result<(), DropReason> {
        if !self.state.get().responds() {
            return Err(DropReason::State);
        }
        let info = check_recv(pkt, payload_len, &self.attr(MAX_RECV_LEN), &[self.pkey])?;
        let grh = ops.grh().ok_or(DropReason::NoGrh)?;
        let byte_len = payload_len.saturating_add(GRH_LEN as u32);
        let status = match ops.recv_start() {
            RecvStart::Empty => return Err(DropReason::NoReceive),
            RecvStart::LocalError(status) => status,
            // Too long for the buffer: dropped, the buffer stays (IBTA 9.8.3, responder checks).
            RecvStart::Taken if byte_len > ops.recv_room() => {
                return Err(DropReason::ReceiveTooShort);
            }
            RecvStart::Taken => match ops.recv_place(&grh) {
                Ok(()) => Status::Success,
                // The receive request stays, for the next datagram.
                Err(PlaceError::NotPresent) => return Err(DropReason::NotPresent),
                Err(PlaceError::Failed(status)) => status,
            },
        };
        ops.recv_done(completion(&info, byte_len, status), info.src_qpn);
        if status != Status::Success {
            self.state.enter(State::Err);
        }
        Ok(())
    }
}

/// The message of `request`, to `dest`.
#[inline]
fn datagram(request: &Request, dest: UdDest) -> Datagram {
    Datagram {
        len: request.len,
        dest_qpn: Qpn::new(dest.qpn),
        qkey: dest.qkey,
        imm: match request.op {
            SendOp::SendImm(imm) => Some(imm),
            _ => None,
        },
        solicited: request.solicited,
    }
}

/// The completion of a receive; `byte_len` counts the 40 bytes in front of the payload.
#[inline]
fn completion(info: &DatagramRecv, byte_len: u32, status: Status) -> RecvCompletion {
    RecvCompletion {
        status,
        write_imm: false,
        byte_len,
        imm: info.imm,
        inv_rkey: None,
        solicited: info.solicited,
    }
}
