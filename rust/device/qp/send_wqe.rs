// SPDX-License-Identifier: GPL-2.0

//! Send WQEs: checks the copy of a WQE and turns it into a request of the transport. The send queue
//! resolves the SGEs.

use super::operation::{Form, Operation};
use crate::device::packet::ah::{Ah, Ahs};
use crate::device::pd::PdId;
use crate::device::uabi::wqe::{
    send_flag, AtomicWr, DmaHead, FlushWr, Op, RdmaWr, RxeSendWr, UdWr,
};
use crate::proto::transport::{Flags, Request, SendOp, Status, UdDest, ATOMIC_LEN};
use crate::proto::wire::FethRepr;
use crate::rdma::qp::QpType;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The limits and the type of a send queue.
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

/// The destination of a datagram, and its address handle.
pub(crate) struct AhDest {
    pub(crate) ah: Arc<Ah>,
    pub(crate) dest: UdDest,
}

impl SqLimits {
    /// The request of the transport for a WQE, with its length still 0.
    #[inline(always)]
    pub(crate) fn request(&self, wr: &RxeSendWr, dma: &DmaHead, op: Op) -> Request {
        let flags = Flags {
            signaled: self.sig_all || wr.has(send_flag::SIGNALED),
            solicited: wr.has(send_flag::SOLICITED),
            fence: wr.has(send_flag::FENCE),
        };
        let atomic: AtomicWr = wr.form();
        let (va, rkey) = match Operation::of(op).form {
            Form::None | Form::Flush | Form::Bind | Form::Register => (0, 0),
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
            Op::AtomicWrite => SendOp::AtomicWrite,
            Op::WriteImm => SendOp::WriteImm(wr.ex),
            Op::Read | Op::ReadInv => SendOp::Read,
            Op::CompareSwap => SendOp::CompareSwap {
                compare: atomic.compare_add,
                swap: atomic.swap,
            },
            Op::FetchAdd => SendOp::FetchAdd {
                add: atomic.compare_add,
            },
            Op::LocalInv | Op::BindMw | Op::RegMr => SendOp::Local,
            Op::Flush => return flush(wr, dma.length, flags),
        };
        Request::new(send_op, 0, va, rkey, flags)
    }

    /// The destination of a datagram; `None` for a connected QP.
    ///
    /// # Errors
    ///
    /// LocQpOp for an operation that datagrams do not have, or if the PD has no such AH.
    #[inline(always)]
    pub(crate) fn dest(&self, ahs: &Ahs, wr: &RxeSendWr, op: Op) -> Result<Option<AhDest>, Status> {
        if self.kind.is_connected() {
            return Ok(None);
        }
        if !Operation::of(op).datagram {
            return Err(Status::LocQpOp);
        }
        let ud: UdWr = wr.form();
        let ah = ahs.get(ud.ah_num).ok_or(Status::LocQpOp)?;
        if ah.pd() != self.pd {
            return Err(Status::LocQpOp);
        }
        let dest = UdDest {
            qpn: ud.remote_qpn,
            qkey: ud.remote_qkey,
        };
        Ok(Some(AhDest { ah, dest }))
    }

    /// How many bytes of inline data a WQE has, or of a value in the place of the SGEs.
    ///
    /// # Errors
    ///
    /// LocQpOp for an operation that sends no data, LocLen for more than the queue's limit.
    #[inline]
    pub(crate) fn inline_len(&self, dma: &DmaHead, op: Op) -> Result<u32, Status> {
        let operation = Operation::of(op);
        if operation.stores_response() || operation.local {
            return Err(Status::LocQpOp);
        }
        let most = if operation.word {
            ATOMIC_LEN
        } else {
            self.max_inline
        };
        if dma.length > most {
            return Err(Status::LocLen);
        }
        Ok(dma.length)
    }
}

/// The request for a FLUSH of `len` bytes. Reserved values are the peer's to refuse; one that does
/// not fit in the header is a local error.
#[cold]
fn flush(wr: &RxeSendWr, len: u32, flags: Flags) -> Request {
    let wr: FlushWr = wr.form();
    let Some(feth) = FethRepr::new(wr.kind, wr.level) else {
        return Request::with_local_error(Status::LocQpOp);
    };
    let op = SendOp::Flush { feth, len };
    Request::new(op, 0, wr.remote_addr, wr.rkey, flags)
}
