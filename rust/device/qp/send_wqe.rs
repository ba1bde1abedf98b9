// SPDX-License-Identifier: GPL-2.0

//! Send WQEs: from the copy of one to a request of the transport, checked. Its SGEs are resolved by
//! the send queue.

use super::operation::{Form, Operation};
use crate::device::packet::ah::Ah;
use crate::device::pd::PdId;
use crate::device::uabi::wqe::{send_flag, AtomicWr, DmaHead, Op, RdmaWr, RxeSendWr, UdWr};
use crate::device::Core;
use crate::proto::transport::{Flags, Request, SendOp, Status, UdDest};
use crate::rdma::qp::QpType;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a queue is made for.
#[derive(Clone, Copy)]
pub(crate) struct SqLimits {
    pub(crate) pd: PdId,
    /// WQEs of datagram services name an address handle.
    pub(crate) kind: QpType,
    /// Every request is signaled.
    pub(crate) sig_all: bool,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
}

/// Where a datagram goes, and the way there.
pub(crate) struct AhDest {
    pub(crate) ah: Arc<Ah>,
    pub(crate) dest: UdDest,
}

impl SqLimits {
    /// The transport's view of a WQE, its length still 0.
    #[inline]
    pub(crate) fn request(&self, wr: &RxeSendWr, op: Op) -> Request {
        let flags = Flags {
            signaled: self.sig_all || wr.has(send_flag::SIGNALED),
            solicited: wr.has(send_flag::SOLICITED),
            fence: wr.has(send_flag::FENCE),
        };
        let atomic: AtomicWr = wr.form();
        let (va, rkey) = match Operation::of(op).form {
            Form::None => (0, 0),
            Form::Rdma => {
                let rdma: RdmaWr = wr.form();
                (rdma.remote_addr, rdma.rkey)
            }
            Form::Atomic => (atomic.remote_addr, atomic.rkey),
        };
        let send_op = match op {
            Op::Send => SendOp::Send,
            Op::SendImm => SendOp::SendImm(wr.ex),
            Op::SendInv => SendOp::SendInv(u32::from_ne_bytes(wr.ex)),
            Op::Write => SendOp::Write,
            Op::WriteImm => SendOp::WriteImm(wr.ex),
            Op::Read => SendOp::Read,
            Op::CompareSwap => SendOp::CompareSwap {
                compare: atomic.compare_add,
                swap: atomic.swap,
            },
            Op::FetchAdd => SendOp::FetchAdd {
                add: atomic.compare_add,
            },
        };
        Request::new(send_op, 0, va, rkey, flags)
    }

    /// Where a datagram goes; nothing for a connected QP.
    ///
    /// # Errors
    ///
    /// LocQpOp for an operation that datagrams do not have, and where the PD has no such AH.
    #[inline]
    pub(crate) fn dest(
        &self,
        core: &Core,
        wr: &RxeSendWr,
        op: Op,
    ) -> Result<Option<AhDest>, Status> {
        if self.kind.is_connected() {
            return Ok(None);
        }
        if !Operation::of(op).datagram {
            return Err(Status::LocQpOp);
        }
        let ud: UdWr = wr.form();
        let ah = core.ahs.get(ud.ah_num).ok_or(Status::LocQpOp)?;
        if ah.pd() != self.pd {
            return Err(Status::LocQpOp);
        }
        let dest = UdDest {
            qpn: ud.remote_qpn,
            qkey: ud.remote_qkey,
        };
        Ok(Some(AhDest { ah, dest }))
    }

    /// How many bytes of inline data a WQE has.
    ///
    /// # Errors
    ///
    /// LocQpOp for an operation that sends no data, LocLen for more than the queue is made for.
    #[inline]
    pub(crate) fn inline_len(&self, dma: &DmaHead, op: Op) -> Result<u32, Status> {
        if Operation::of(op).stores_response() {
            return Err(Status::LocQpOp);
        }
        if dma.length > self.max_inline {
            return Err(Status::LocLen);
        }
        Ok(dma.length)
    }
}
