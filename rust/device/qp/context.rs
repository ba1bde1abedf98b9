// SPDX-License-Identifier: GPL-2.0

//! The immutable part of a queue pair, for its transport service.

use super::srq::Srq;
use crate::device::cq::completion::QpId;
use crate::device::cq::Cq;
use crate::device::mem::mkey::Party;
use crate::device::pd::PdId;
use crate::device::Core;
use crate::rdma::qp::QpToken;
use crate::sync::quota::Owner;
use kernel::sync::Arc;

/// The part of a QP that never changes and therefore needs no lock.
pub(crate) struct QpContext {
    pub(crate) core: Arc<Core>,
    pub(crate) qpn: u32,
    pub(crate) pd: PdId,
    /// The user that it counts for.
    pub(crate) owner: Owner,
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
    pub(crate) fn peer(&self) -> Party {
        let (pd, qpn) = (self.pd, self.qpn);
        Party::Peer { pd, qpn }
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
