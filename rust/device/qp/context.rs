// SPDX-License-Identifier: GPL-2.0

//! The immutable part of a queue pair, for its transport service.

use super::srq::Srq;
use crate::device::cq::completion::{Completion, QpId};
use crate::device::cq::{Cq, Wake};
use crate::device::mem::mkey::Accessor;
use crate::device::mem::mkeys::Mkeys;
use crate::device::packet::ah::Ahs;
use crate::device::pd::PdId;
use crate::device::port::Port;
use crate::net::netdev::Namespace;
use crate::rdma::qp::QpToken;
use crate::rdma::trace::{self, Event};
use crate::sync::quota::Owner;
use kernel::sync::Arc;

/// The part of a QP that never changes and therefore needs no lock.
pub(crate) struct QpContext {
    pub(crate) port: Arc<Port>,
    pub(crate) mkeys: Arc<Mkeys>,
    pub(crate) ahs: Arc<Ahs>,
    pub(crate) qpn: u32,
    pub(crate) pd: PdId,
    /// The user that it counts for.
    pub(crate) owner: Owner,
    /// The network namespace of the process that made it; none for a kernel user.
    pub(crate) namespace: Option<Namespace>,
    /// The `ib_qp`, for completions.
    pub(crate) token: QpToken,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    /// Where receives come from, if not from a queue of its own.
    pub(crate) srq: Option<Arc<Srq>>,
}

impl QpContext {
    /// The peer, as a user of this side's keys.
    #[inline]
    pub(crate) fn peer(&self) -> Accessor {
        let (pd, qpn) = (self.pd, self.qpn);
        Accessor::Peer { pd, qpn }
    }

    /// Whether a datagram that arrived in `namespace` may be for it: for a process, in its own
    /// namespace or the device's; for a kernel user, in any.
    #[inline]
    pub(crate) fn may_receive_in(&self, namespace: Namespace) -> bool {
        self.namespace
            .is_none_or(|own| own == namespace || self.port.home() == namespace)
    }

    /// Adds the completion of a send to `cq`, the send CQ. Under the QP's lock.
    #[inline]
    pub(crate) fn complete_send(&self, cq: &Cq, completion: &Completion) -> Wake {
        self.trace(completion);
        cq.push(completion)
    }

    /// Adds the completion of a receive to the receive CQ. Under the QP's lock.
    #[inline]
    pub(crate) fn complete_recv(&self, completion: &Completion) -> Wake {
        self.trace(completion);
        self.recv_cq.push(completion)
    }

    #[inline(always)]
    fn trace(&self, completion: &Completion) {
        if trace::is_on(Event::Completion) {
            let qp = self.port.counters.traced(self.qpn);
            let wc = &completion.wc;
            let (opcode, status) = (wc.opcode.raw(), wc.status.raw());
            trace::completion(&qp, wc.wr_id, opcode, status, wc.byte_len);
        }
    }

    /// The identity of the QP in a completion.
    #[inline]
    pub(crate) fn id(&self) -> QpId {
        QpId {
            qpn: self.qpn,
            token: self.token,
        }
    }
}
