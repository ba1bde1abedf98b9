// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, as create, modify and query pass them.

use super::access::Access;
use super::attr::Mtu;
use super::gid::AhAttr;
use crate::ffi;
use kernel::prelude::*;

/// The transport service of a queue pair. Each `match` on it names every service, so that a new one
/// is not treated as another by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpType {
    /// The general services interface: QP 1, datagrams of management.
    Gsi = ffi::ib_qp_type_IB_QPT_GSI,
    /// Reliable connection.
    Rc = ffi::ib_qp_type_IB_QPT_RC,
    /// Unreliable connection.
    Uc = ffi::ib_qp_type_IB_QPT_UC,
    /// Unreliable datagram.
    Ud = ffi::ib_qp_type_IB_QPT_UD,
}

impl QpType {
    /// From `enum ib_qp_type`; EOPNOTSUPP for other types.
    pub(super) fn from_raw(raw: ffi::ib_qp_type) -> Result<Self> {
        Ok(match raw {
            ffi::ib_qp_type_IB_QPT_GSI => QpType::Gsi,
            ffi::ib_qp_type_IB_QPT_RC => QpType::Rc,
            ffi::ib_qp_type_IB_QPT_UC => QpType::Uc,
            ffi::ib_qp_type_IB_QPT_UD => QpType::Ud,
            _ => return Err(super::error::unsupported()),
        })
    }

    /// Whether it is connected to one peer; else requests are datagrams, each with an address
    /// handle.
    pub(crate) fn is_connected(self) -> bool {
        match self {
            QpType::Rc | QpType::Uc => true,
            QpType::Gsi | QpType::Ud => false,
        }
    }
}

/// The state of a queue pair (IBTA Vol 1, 10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpState {
    Reset = ffi::ib_qp_state_IB_QPS_RESET,
    Init = ffi::ib_qp_state_IB_QPS_INIT,
    Rtr = ffi::ib_qp_state_IB_QPS_RTR,
    Rts = ffi::ib_qp_state_IB_QPS_RTS,
    Sqd = ffi::ib_qp_state_IB_QPS_SQD,
    Sqe = ffi::ib_qp_state_IB_QPS_SQE,
    Err = ffi::ib_qp_state_IB_QPS_ERR,
}

impl QpState {
    /// From `enum ib_qp_state`; EINVAL for anything that is not one.
    pub(crate) fn from_raw(raw: u32) -> Result<Self> {
        Ok(match raw {
            ffi::ib_qp_state_IB_QPS_RESET => QpState::Reset,
            ffi::ib_qp_state_IB_QPS_INIT => QpState::Init,
            ffi::ib_qp_state_IB_QPS_RTR => QpState::Rtr,
            ffi::ib_qp_state_IB_QPS_RTS => QpState::Rts,
            ffi::ib_qp_state_IB_QPS_SQD => QpState::Sqd,
            ffi::ib_qp_state_IB_QPS_SQE => QpState::Sqe,
            ffi::ib_qp_state_IB_QPS_ERR => QpState::Err,
            _ => return Err(EINVAL),
        })
    }
}

/// Identifies a queue pair, [`struct ib_qp`], to kernel users in their completions. It can only be
/// passed on.
///
/// [`struct ib_qp`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct QpToken(*mut ffi::ib_qp);

// SAFETY: the pointer is only ever handed on as a value.
unsafe impl Send for QpToken {}
// SAFETY: as above.
unsafe impl Sync for QpToken {}

impl QpToken {
    pub(super) fn new(qp: *mut ffi::ib_qp) -> Self {
        QpToken(qp)
    }

    pub(super) fn as_ptr(self) -> *mut ffi::ib_qp {
        self.0
    }
}

impl core::fmt::Debug for QpToken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("QpToken")
    }
}

/// The sizes of a queue pair's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QpCaps {
    /// Send requests.
    pub(crate) max_send_wr: u32,
    /// Receive requests.
    pub(crate) max_recv_wr: u32,
    /// Elements of a send request's scatter/gather list.
    pub(crate) max_send_sge: u32,
    /// Elements of a receive request's scatter/gather list.
    pub(crate) max_recv_sge: u32,
    /// Bytes of inline data.
    pub(crate) max_inline_data: u32,
}

impl QpCaps {
    pub(super) fn from_raw(raw: &ffi::ib_qp_cap) -> Self {
        QpCaps {
            max_send_wr: raw.max_send_wr,
            max_recv_wr: raw.max_recv_wr,
            max_send_sge: raw.max_send_sge,
            max_recv_sge: raw.max_recv_sge,
            max_inline_data: raw.max_inline_data,
        }
    }

    pub(super) fn fill(&self, raw: &mut ffi::ib_qp_cap) {
        raw.max_send_wr = self.max_send_wr;
        raw.max_recv_wr = self.max_recv_wr;
        raw.max_send_sge = self.max_send_sge;
        raw.max_recv_sge = self.max_recv_sge;
        raw.max_inline_data = self.max_inline_data;
    }
}

/// The requested attributes of a new queue pair, which uses the driver's queues of these types.
pub(crate) struct QpInit<'a, Cq, Srq> {
    /// The transport service.
    pub(crate) kind: QpType,
    /// Where send completions go.
    pub(crate) send_cq: &'a Cq,
    /// Where receive completions go; may be the same queue.
    pub(crate) recv_cq: &'a Cq,
    /// Where receives come from in place of a queue of its own.
    pub(crate) srq: Option<&'a Srq>,
    /// The minimum sizes; unchecked.
    pub(crate) cap: QpCaps,
    /// Whether every send request completes as if it were signalled.
    pub(crate) sig_all: bool,
}

/// The actual attributes of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpCreated {
    /// Its number, 24 bits.
    pub(crate) qpn: u32,
    /// Its actual sizes.
    pub(crate) caps: QpCaps,
}

/// The attributes a modify changes, of a [`struct ib_qp_attr`]: each accessor gives `None` unless
/// the attribute's mask bit is set.
///
/// Enumerations and the address vector of a process are checked before the driver sees them;
/// numbers are not.
///
/// [`struct ib_qp_attr`]: srctree/include/rdma/ib_verbs.h
pub(crate) struct QpAttr<'a> {
    raw: &'a ffi::ib_qp_attr,
    mask: u32,
    state: Option<QpState>,
    cur_state: Option<QpState>,
    path_mtu: Option<Mtu>,
    av: Option<AhAttr>,
}

/// Accessors of plain fields, one for each mask bit.
macro_rules! masked {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $bit:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name(&self) -> Option<$ty> {
                self.has(ffi::$bit).then_some(self.raw.$name)
            }
        )*
    };
}

impl<'a> QpAttr<'a> {
    /// Checks and wraps ib_core's attributes.
    ///
    /// EOPNOTSUPP for mask bits beyond the standard ones; EINVAL for a value that its type does not
    /// have, a port that does not exist, or an address vector that [`AhAttr`] refuses.
    ///
    /// # Safety
    ///
    /// If the mask has the address vector's bit, its `sgid_attr` is null or valid and referenced.
    pub(super) unsafe fn new(raw: &'a ffi::ib_qp_attr, mask: u32) -> Result<Self> {
        if mask & !ffi::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS != 0 {
            return Err(super::error::unsupported());
        }
        let mut attr = QpAttr {
            raw,
            mask,
            state: None,
            cur_state: None,
            path_mtu: None,
            av: None,
        };
        if attr.has(ffi::ib_qp_attr_mask_IB_QP_STATE) {
            attr.state = Some(QpState::from_raw(raw.qp_state)?);
        }
        if attr.has(ffi::ib_qp_attr_mask_IB_QP_CUR_STATE) {
            attr.cur_state = Some(QpState::from_raw(raw.cur_qp_state)?);
        }
        if attr.has(ffi::ib_qp_attr_mask_IB_QP_PATH_MTU) {
            attr.path_mtu = Some(Mtu::from_raw(raw.path_mtu)?);
        }
        if attr.has(ffi::ib_qp_attr_mask_IB_QP_AV) {
            // SAFETY: by the requirement of this function.
            attr.av = Some(unsafe { AhAttr::from_raw(&raw.ah_attr) }?);
        }
        let no_such_state = attr.has(ffi::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE)
            && raw.path_mig_state > ffi::ib_mig_state_IB_MIG_ARMED;
        if no_such_state
            || attr
                .port_num()
                .is_some_and(|port| port != super::port::PORT)
        {
            return Err(EINVAL);
        }
        Ok(attr)
    }

    fn has(&self, bit: u32) -> bool {
        self.mask & bit != 0
    }

    /// Whether the specification allows these attributes with the transition from `cur` to `new`
    /// (IBTA Vol 1, 11.2.5.2; ib_core's table).
    pub(crate) fn is_ok(&self, cur: QpState, new: QpState, kind: QpType) -> bool {
        // SAFETY: the states and the type are ones that the function's table has.
        unsafe { ffi::ib_modify_qp_is_ok(cur as u32, new as u32, kind as u32, self.mask) }
    }

    /// The state to go to.
    pub(crate) fn state(&self) -> Option<QpState> {
        self.state
    }

    /// The state that the user believes the queue pair to be in.
    pub(crate) fn cur_state(&self) -> Option<QpState> {
        self.cur_state
    }

    /// The path MTU.
    pub(crate) fn path_mtu(&self) -> Option<Mtu> {
        self.path_mtu
    }

    /// The address vector.
    pub(crate) fn av(&self) -> Option<&AhAttr> {
        self.av.as_ref()
    }

    /// The access rights of peers.
    pub(crate) fn access(&self) -> Option<Access> {
        self.has(ffi::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS)
            .then(|| Access::from_raw(self.raw.qp_access_flags))
    }

    /// New sizes of the queues.
    pub(crate) fn caps(&self) -> Option<QpCaps> {
        self.has(ffi::ib_qp_attr_mask_IB_QP_CAP)
            .then(|| QpCaps::from_raw(&self.raw.cap))
    }

    /// Whether path migration is asked for: an alternate path, or a migration state other than
    /// MIGRATED, which stands for no migration (IBTA Vol 1, 10.4).
    pub(crate) fn has_migration(&self) -> bool {
        self.has(ffi::ib_qp_attr_mask_IB_QP_ALT_PATH)
            || (self.has(ffi::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE)
                && self.raw.path_mig_state != ffi::ib_mig_state_IB_MIG_MIGRATED)
    }

    masked! {
        /// The index of the partition key.
        pkey_index: u16 = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
        /// The port; always 1.
        port_num: u32 = ib_qp_attr_mask_IB_QP_PORT;
        /// The Q_Key.
        qkey: u32 = ib_qp_attr_mask_IB_QP_QKEY;
        /// The exponent of 4.096 us * 2^n: after that time or later an unanswered request is
        /// retransmitted; 0: never.
        timeout: u8 = ib_qp_attr_mask_IB_QP_TIMEOUT;
        /// How often a request is retransmitted.
        retry_cnt: u8 = ib_qp_attr_mask_IB_QP_RETRY_CNT;
        /// How often a request is retransmitted after an RNR NAK; 7: without limit.
        rnr_retry: u8 = ib_qp_attr_mask_IB_QP_RNR_RETRY;
        /// The first PSN of the peer. ib_core has masked it to 24 bits.
        rq_psn: u32 = ib_qp_attr_mask_IB_QP_RQ_PSN;
        /// The first PSN to send. ib_core has masked it to 24 bits.
        sq_psn: u32 = ib_qp_attr_mask_IB_QP_SQ_PSN;
        /// How many READs and atomics may be outstanding at the peer.
        max_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
        /// How many READs and atomics the peer may have outstanding.
        max_dest_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
        /// The timer code in RNR NAKs (IBTA Vol 1, table 45).
        min_rnr_timer: u8 = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
        /// The peer's QP number.
        dest_qp_num: u32 = ib_qp_attr_mask_IB_QP_DEST_QPN;
    }
}

/// The destination of a query's result: ib_core's attributes and the initial attributes.
pub(crate) struct QpQuery<'a> {
    attr: &'a mut ffi::ib_qp_attr,
    init: &'a mut ffi::ib_qp_init_attr,
}

/// Setters of plain fields.
macro_rules! set {
    ($($(#[$doc:meta])* $setter:ident($name:ident: $ty:ty);)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $setter(&mut self, $name: $ty) {
                self.attr.$name = $name;
            }
        )*
    };
}

impl<'a> QpQuery<'a> {
    pub(super) fn new(attr: &'a mut ffi::ib_qp_attr, init: &'a mut ffi::ib_qp_init_attr) -> Self {
        // uverbs copies all of it to the process, and does not clear it first. 0 is also the
        // migration state MIGRATED.
        *attr = ffi::ib_qp_attr::default();
        attr.port_num = super::port::PORT;
        attr.ah_attr.port_num = super::port::PORT;
        QpQuery { attr, init }
    }

    /// The state.
    pub(crate) fn set_state(&mut self, state: QpState) {
        self.attr.qp_state = state as u32;
        self.attr.cur_qp_state = state as u32;
    }

    /// The path MTU.
    pub(crate) fn set_path_mtu(&mut self, mtu: Mtu) {
        self.attr.path_mtu = mtu.raw();
    }

    /// The address vector.
    pub(crate) fn set_av(&mut self, av: &AhAttr) {
        av.fill(&mut self.attr.ah_attr);
    }

    /// The access rights of peers.
    pub(crate) fn set_access(&mut self, access: Access) {
        self.attr.qp_access_flags = access.raw();
    }

    /// The sizes of the queues.
    pub(crate) fn set_caps(&mut self, caps: &QpCaps) {
        caps.fill(&mut self.attr.cap);
        caps.fill(&mut self.init.cap);
    }

    /// Whether every send request completes as if it were signalled.
    pub(crate) fn set_sig_all(&mut self, sig_all: bool) {
        self.init.sq_sig_type = if sig_all {
            ffi::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            ffi::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }

    /// Whether the send queue is still draining, in the SQD state.
    pub(crate) fn set_sq_draining(&mut self, draining: bool) {
        self.attr.sq_draining = draining.into();
    }

    set! {
        /// The Q_Key.
        set_qkey(qkey: u32);
        /// The PSN expected next.
        set_rq_psn(rq_psn: u32);
        /// The PSN to be sent next.
        set_sq_psn(sq_psn: u32);
        /// The peer's QP number.
        set_dest_qp_num(dest_qp_num: u32);
        /// The index of the partition key.
        set_pkey_index(pkey_index: u16);
        /// How many READs and atomics may be outstanding at the peer.
        set_max_rd_atomic(max_rd_atomic: u8);
        /// How many READs and atomics the peer may have outstanding.
        set_max_dest_rd_atomic(max_dest_rd_atomic: u8);
        /// The timer code in RNR NAKs.
        set_min_rnr_timer(min_rnr_timer: u8);
        /// The exponent of the retransmission timeout.
        set_timeout(timeout: u8);
        /// How often a request is retransmitted.
        set_retry_cnt(retry_cnt: u8);
        /// How often a request is retransmitted after an RNR NAK.
        set_rnr_retry(rnr_retry: u8);
    }
}
