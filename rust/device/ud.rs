// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams, and the management QP (GSI) that is one.

use super::completion::Completion;
use super::limits;
use super::loopback::{LoopbackOrigin, LoopbackPacket};
use super::payload::PayloadError;
use super::progress::{Deferred, Progress};
use super::qp_context::QpContext;
use super::rq::RecvQueue;
use super::rx_packet::RxPacket;
use super::sq::SendQueue;
use super::tx::{Batch, NoPacket, Packets, Unsent};
use crate::net::room::RoomHandler;
use crate::proto::transport::{
    check_recv, Datagram, DatagramAttr, DatagramSender, DropReason, Events, RecvCompletion,
    RecvStart, RequestQueue, SendOp, State, Status,
};
use crate::proto::wire::{PKey, Psn, Qpn, GRH_LEN};
use crate::rdma::strided::StridedSrc;
use kernel::prelude::*;

/// The state of a datagram QP.
pub(crate) struct Ud {
    pub(crate) state: State,
    pub(crate) attr: DatagramAttr,
    pub(crate) sender: DatagramSender,
    /// The request that is not sent yet, or has failed and waits to be completed.
    next: u32,
    failed: Option<Status>,
    events: Events,
}

impl Ud {
    /// A QP in the reset state.
    pub(crate) fn new(qpn: u32) -> Self {
        Ud {
            state: State::Reset,
            attr: DatagramAttr {
                src_qpn: Qpn::new(qpn),
                qkey: 0,
                pkey: PKey::new(limits::DEFAULT_PKEY),
                mtu: 0,
            },
            sender: DatagramSender::new(Psn::ZERO),
            next: 0,
            failed: None,
            events: Events::NONE,
        }
    }

    /// Back to the beginning, in the reset state.
    pub(crate) fn reset(&mut self) {
        *self = Ud::new(self.attr.src_qpn.get());
    }

    /// Sends what is posted until the batch is full. A datagram is complete when it is sent.
    #[inline]
    pub(crate) fn transmit<Q: RoomHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        while self.state == State::Rts && self.failed.is_none() {
            if batch.is_full() {
                return Progress::More;
            }
            if batch.must_wait() {
                return Progress::Idle;
            }
            match self.send_one(qp, sq, batch) {
                None => break,
                Some(Ok(())) => self.next = self.next.wrapping_add(1),
                Some(Err(None)) => return Progress::Stalled,
                Some(Err(Some(status))) => self.failed = Some(status),
            }
        }
        Progress::Idle
    }

    /// Sends the next datagram: `None` if there is none, an error without a status if there is no
    /// memory.
    #[inline]
    fn send_one<Q: RoomHandler>(
        &mut self,
        qp: &QpContext,
        sq: &SendQueue,
        batch: &mut Batch<'_, Q>,
    ) -> Option<Result<(), Option<Status>>> {
        let n = self.next;
        let request = sq.get(n)?;
        if let Some(status) = request.local_error() {
            return Some(Err(Some(status)));
        }
        let dest = sq.ud_dest(n)?;
        let len = request.len;
        let datagram = Datagram {
            len,
            dest_qpn: Qpn::new(dest.qpn),
            qkey: dest.qkey,
            imm: match request.op {
                SendOp::SendImm(imm) => Some(imm),
                _ => None,
            },
            solicited: request.solicited,
        };
        self.attr.mtu = qp.core.port.mtu();
        // Too long for the port: nothing is sent, and that is no error (IBTA C10-93.1.1).
        if len > self.attr.mtu {
            batch.skip();
            return Some(Ok(()));
        }
        let repr = match self.sender.build(&self.attr, &datagram) {
            Ok(repr) => repr,
            Err(status) => return Some(Err(Some(status))),
        };
        if dest
            .ah
            .with_path(|path| path.keeps_leading_back(&qp.core.port))
        {
            let source = match batch.loopback.reserve(sq.payer()) {
                Ok(()) => sq.source(n, 0, len),
                Err(_) => Err(PayloadError::NoMemory),
            };
            return Some(match source {
                Ok(source) if source.is_there() => {
                    batch.loopback.put(LoopbackPacket {
                        repr,
                        sender: LoopbackOrigin::Datagram(dest.ah.clone()),
                        len,
                        source,
                    });
                    Ok(())
                }
                Err(PayloadError::NoMemory) => {
                    self.sender.undo(&repr);
                    Err(None)
                }
                _ => Err(Some(Status::LocProt)),
            });
        }
        let built = dest.ah.with_path(|path| {
            batch.add(&qp.core, path, &Packets::one(&repr, len), |_, len, out| {
                sq.gather(n, 0, len, out)
            })
        });
        Some(match built {
            Ok(()) => Ok(()),
            // No way there: a datagram that is lost, like any other.
            Err(Unsent {
                why: NoPacket::NoRoute,
                ..
            }) => {
                batch.skip();
                Ok(())
            }
            Err(Unsent {
                why: NoPacket::NoMemory,
                ..
            }) => {
                self.sender.undo(&repr);
                Err(None)
            }
            Err(_) => Err(Some(Status::LocProt)),
        })
    }

    /// Completes what is sent; a request that failed takes the send queue to SQE, and what follows
    /// it is flushed (IBTA 10.3.1.6). In the error state everything is flushed.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        deferred: &mut Deferred,
    ) -> bool {
        let mut any = false;
        loop {
            let n = sq.head();
            let Some(request) = sq.get(n) else { break };
            let (signaled, len) = (request.signaled, request.len);
            let status = if n != self.next {
                Status::Success
            } else if let Some(status) = self.failed.take() {
                if self.state == State::Rts {
                    self.state = State::Sqe;
                }
                status
            } else if matches!(self.state, State::Sqe | State::Err) {
                Status::WrFlush
            } else {
                break;
            };
            if n == self.next {
                self.next = self.next.wrapping_add(1);
            }
            any = true;
            let Some(released) = sq.release(n) else { break };
            if signaled || status != Status::Success {
                let wc = Completion::send(qp.id(), released.wr_id, released.op, status, len);
                deferred.send.merge(qp.send_cq.push(&wc));
            }
        }
        deferred.events = deferred.events.union(core::mem::take(&mut self.events));
        any
    }

    /// Changes the state. A send queue that stops is drained at once: nothing waits for an answer.
    pub(crate) fn set_state(&mut self, state: State) {
        if state == State::Sqd && self.state != State::Sqd {
            self.events = self.events.union(Events::SQ_DRAINED);
        }
        self.state = state;
    }

    /// Takes a datagram.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        qp: &QpContext,
        rq: &mut RecvQueue,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), DropReason> {
        if !self.state.responds() {
            return Err(DropReason::State);
        }
        let pkeys = [PKey::new(limits::DEFAULT_PKEY)];
        self.attr.mtu = 4096;
        let len = packet.payload_len();
        let info = check_recv(packet.repr(), len, &self.attr, &pkeys)?;
        let area = packet.grh_area().ok_or(DropReason::NoGrh)?;
        let status = match rq.start(&qp.core) {
            RecvStart::Empty => return Err(DropReason::NoReceive),
            RecvStart::LocalError(status) => status,
            RecvStart::Taken => {
                // Too long for the buffer: dropped, the buffer stays (IBTA 9.8.3, responder
                // checks).
                if len.saturating_add(GRH_LEN as u32) > rq.room() {
                    rq.put_back();
                    return Err(DropReason::ReceiveTooShort);
                }
                let placed = rq.place(0, StridedSrc::new(&area)).and_then(|()| {
                    packet.for_payload(Status::LocProt, |at, bytes| {
                        rq.place(at.wrapping_add(GRH_LEN as u32), bytes)
                    })
                });
                placed.err().unwrap_or(Status::Success)
            }
        };
        let Some(wr_id) = rq.finish() else {
            return Ok(());
        };
        let done = RecvCompletion {
            status,
            write_imm: false,
            byte_len: len.saturating_add(GRH_LEN as u32),
            imm: info.imm,
            inv_rkey: None,
            solicited: info.solicited,
        };
        let mut completion = Completion::recv(qp.id(), wr_id, &done);
        completion.wc.src_qp = info.src_qpn.get();
        completion.wc.grh = Some(packet.network());
        completion.wc.smac = packet.source_mac();
        deferred.recv.merge(qp.recv_cq.push(&completion));
        if status != Status::Success {
            self.set_state(State::Err);
        }
        Ok(())
    }
}
