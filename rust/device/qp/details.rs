// SPDX-License-Identifier: GPL-2.0

//! Details of a QP, for `rdma resource show qp`.

use super::object::Qp;
use crate::rdma::details::Details;
use crate::sync::timer;

/// Writes the details of `qp`: see debugging.rst, which describes each. Process context.
pub(crate) fn write(qp: &Qp, out: &mut Details) {
    let inner = qp.inner.lock();
    out.number(c"sends", inner.sq.posted());
    // Those of a shared receive queue are its own detail.
    if let Some(posted) = inner.rq.posted() {
        out.number(c"recvs", posted);
    }
    inner.transport.details(&qp.ctx, out);
    if let Some(sent) = inner.last_sent {
        out.number(c"since_sent_ns", timer::now_ns().saturating_sub(sent.0));
    }
    if let Some(text) = inner.cause.text() {
        out.text(c"error", text);
    }
}
