// SPDX-License-Identifier: GPL-2.0

//! Attributes of a QP, for the transport: ib_core's states and changes as the transport has them.

use crate::proto::transport::{self, Attr, Modify, RequesterDetails, State, UdModify};
use crate::rdma::access::Access;
use crate::rdma::attr::Mtu;
use crate::rdma::details::Details;
use crate::rdma::port::DEFAULT_PKEY;
use crate::rdma::qp::{QpAttr, QpQuery, QpState};

/// The transport's name of a state.
pub(super) fn to_transport(state: QpState) -> State {
    match state {
        QpState::Reset => State::Reset,
        QpState::Init => State::Init,
        QpState::Rtr => State::Rtr,
        QpState::Rts => State::Rts,
        QpState::Sqd => State::Sqd,
        QpState::Sqe => State::Sqe,
        QpState::Err => State::Err,
    }
}

/// ib_core's name of a state.
pub(crate) fn from_transport(state: State) -> QpState {
    match state {
        State::Reset => QpState::Reset,
        State::Init => QpState::Init,
        State::Rtr => QpState::Rtr,
        State::Rts => QpState::Rts,
        State::Sqd => QpState::Sqd,
        State::Sqe => QpState::Sqe,
        State::Err => QpState::Err,
    }
}

/// The change for the transport of a connected QP.
pub(super) fn connected_change(attr: &QpAttr<'_>) -> Modify {
    Modify {
        state: attr.state().map(to_transport),
        dest_qpn: attr.dest_qp_num(),
        pkey: attr.pkey_index().map(|_| DEFAULT_PKEY),
        pmtu: attr.path_mtu().map(Mtu::bytes),
        sq_psn: attr.sq_psn(),
        rq_psn: attr.rq_psn(),
        timeout: attr.timeout(),
        retry_cnt: attr.retry_cnt(),
        rnr_retry: attr.rnr_retry(),
        min_rnr_timer: attr.min_rnr_timer(),
        max_rd_atomic: attr.max_rd_atomic(),
        access: attr.access().map(|access| transport::RemoteAccess {
            write: access.contains(Access::REMOTE_WRITE),
            read: access.contains(Access::REMOTE_READ),
            atomic: access.contains(Access::REMOTE_ATOMIC),
            flush_global: access.contains(Access::FLUSH_GLOBAL),
            flush_persistent: access.contains(Access::FLUSH_PERSISTENT),
        }),
    }
}

/// The change for the transport of a datagram QP.
pub(super) fn datagram_change(attr: &QpAttr<'_>) -> UdModify {
    UdModify {
        state: attr.state().map(to_transport),
        qkey: attr.qkey(),
        sq_psn: attr.sq_psn(),
    }
}

/// Writes the attributes that RC and UC share.
pub(super) fn query_connected(
    attr: &Attr,
    path_mtu: Mtu,
    is_draining: bool,
    out: &mut QpQuery<'_>,
) {
    out.set_path_mtu(path_mtu);
    out.set_dest_qp_num(attr.dest_qpn.get());
    out.set_sq_draining(is_draining);
}

/// Writes the details of a requester of RC.
pub(super) fn requester_details(requester: &RequesterDetails, out: &mut Details) {
    out.number(c"cwnd", requester.cwnd);
    out.number(c"ssthresh", requester.ssthresh);
    out.number(c"in_flight", requester.in_flight);
    out.number(c"rd_atomic", requester.rd_atomic);
    out.number(c"read_window", requester.read_window);
    // Before the first sample there is none.
    if requester.srtt != 0 {
        out.number(c"srtt_ns", requester.srtt);
        out.number(c"rto_ns", requester.rto);
    }
    out.number(c"retries_left", requester.retries_left);
    if let Some(left) = requester.rnr_retries_left {
        out.number(c"rnr_retries_left", left);
    }
}
