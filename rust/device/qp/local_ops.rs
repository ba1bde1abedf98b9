// SPDX-License-Identifier: GPL-2.0

//! Requests that send nothing: they change what keys of this side name (IBTA 10.6.4 to 10.6.7).

use super::context::QpContext;
use super::progress::Progress;
use super::send_queue::SendQueue;
use crate::device::mem::error::MemError;
use crate::device::mem::fast_mr::Registration;
use crate::device::mem::mkey::Accessor;
use crate::device::mem::mkeys;
use crate::device::mem::mw::Bind;
use crate::device::mem::range::Range;
use crate::device::uabi::wqe::{MwWr, Op, RegWr, RxeSendWr};
use crate::proto::transport::{ConnectedQp, Status};
use crate::rdma::access::Access;

/// No packet may be sent now: carries out the next request, if it sends nothing.
#[inline]
pub(crate) fn carry_out_next<C: ConnectedQp>(
    qp: &QpContext,
    conn: &mut C,
    sq: &mut SendQueue,
) -> Progress {
    if !sq.has_barrier() {
        return Progress::Idle;
    }
    let Some(n) = conn.poll_local(sq) else {
        return Progress::Idle;
    };
    let result = carry_out(qp, sq, n);
    conn.finish_local(result, sq);
    sq.lift_barrier(n);
    Progress::Refetch
}

/// Carries out request `n`.
///
/// # Errors
///
/// MwBind if the key or its use is not permitted (IBTA 11.6.2, memory management operation error).
#[cold]
fn carry_out(qp: &QpContext, sq: &SendQueue, n: u32) -> Result<(), Status> {
    let (op, wr) = sq.wr(n).ok_or(Status::LocQpOp)?;
    let done = match op {
        Op::LocalInv => invalidate(qp, &wr),
        Op::BindMw => bind(qp, &wr),
        Op::RegMr => register(qp, &wr),
        _ => return Err(Status::LocQpOp),
    };
    done.map_err(|_| Status::MwBind)
}

/// The last byte of READ `n` was placed: invalidates the key of a READ with invalidate.
///
/// # Errors
///
/// As for [`carry_out`].
#[inline]
pub(crate) fn finish_read(qp: &QpContext, sq: &SendQueue, n: u32) -> Result<(), Status> {
    if sq.op(n) != Some(Op::ReadInv) {
        return Ok(());
    }
    let (_, wr) = sq.wr(n).ok_or(Status::LocQpOp)?;
    invalidate(qp, &wr).map_err(|_| Status::MwBind)
}

fn invalidate(qp: &QpContext, wr: &RxeSendWr) -> Result<(), MemError> {
    let key = u32::from_ne_bytes(wr.ex);
    qp.mkeys.invalidate(Accessor::Local(qp.pd), qp.qpn, key)
}

fn bind(qp: &QpContext, wr: &RxeSendWr) -> Result<(), MemError> {
    let mw: MwWr = wr.form();
    let bind = Bind {
        // The consumer chooses the low byte alone, and librxe gives no more.
        key: mkeys::with_low_byte(mw.mw_rkey, mw.rkey),
        mr_key: mw.mr_lkey,
        start: mw.addr,
        length: mw.length,
        access: Access::from_bits(mw.access),
    };
    qp.mkeys.bind(qp.pd, qp.qpn, &bind)
}

fn register(qp: &QpContext, wr: &RxeSendWr) -> Result<(), MemError> {
    let reg: RegWr = wr.form();
    let wanted = Registration {
        key: reg.key,
        access: Access::from_bits(reg.access),
        range: Range {
            iova: reg.iova,
            length: reg.length,
        },
    };
    qp.mkeys.register(qp.pd, &wanted)
}
