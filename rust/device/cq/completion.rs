// SPDX-License-Identifier: GPL-2.0

//! A completion as the driver makes it, and its form in the ring of a process.

use crate::device::uabi::cqe::{packet_type, wc_flag, UverbsWc};
use crate::proto::transport::{RecvCompletion, Status};
use crate::rdma::gid::Network;
use crate::rdma::qp::QpToken;
use crate::rdma::wc::{Wc, WcData, WcOpcode, WcStatus};

/// The QP that a completion names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpId {
    /// The QP number, by which a process knows the QP.
    pub(crate) qpn: u32,
    /// The `ib_qp`, by which a kernel user knows the QP.
    pub(crate) token: QpToken,
}

/// The completion of a work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The work completion, as a kernel user sees it.
    pub(crate) wc: Wc,
    /// The number of the QP, by which a process knows it.
    qpn: u32,
    /// Wakes a CQ that is armed for solicited completions only: the sender asked for a solicited
    /// event, or it is an error (IBTA 11.4.2.2).
    pub(crate) solicited: bool,
}

fn status_of(status: Status) -> WcStatus {
    match status {
        Status::Success => WcStatus::Success,
        Status::LocLen => WcStatus::LocLen,
        Status::LocQpOp => WcStatus::LocQpOp,
        Status::LocProt => WcStatus::LocProt,
        Status::WrFlush => WcStatus::WrFlush,
        Status::MwBind => WcStatus::MwBind,
        Status::BadResp => WcStatus::BadResp,
        Status::LocAccess => WcStatus::LocAccess,
        Status::RemInvReq => WcStatus::RemInvReq,
        Status::RemAccess => WcStatus::RemAccess,
        Status::RemOp => WcStatus::RemOp,
        Status::RetryExc => WcStatus::RetryExc,
        Status::RnrRetryExc => WcStatus::RnrRetryExc,
        Status::RemAbort => WcStatus::RemAbort,
        Status::General => WcStatus::General,
    }
}

impl Completion {
    fn new(qp: QpId, wr_id: u64, opcode: WcOpcode, status: Status, byte_len: u32) -> Self {
        Completion {
            wc: Wc {
                wr_id,
                status: status_of(status),
                opcode,
                byte_len,
                qp: qp.token,
                data: WcData::None,
                src_qp: 0,
                pkey_index: 0,
                grh: None,
                smac: None,
                vlan: None,
                vendor_err: 0,
            },
            qpn: qp.qpn,
            solicited: status != Status::Success,
        }
    }

    /// The completion of a send work request.
    pub(crate) fn send(
        qp: QpId,
        wr_id: u64,
        opcode: WcOpcode,
        status: Status,
        byte_len: u32,
    ) -> Self {
        Self::new(qp, wr_id, opcode, status, byte_len)
    }

    /// The completion of a receive work request.
    pub(crate) fn recv(qp: QpId, wr_id: u64, done: &RecvCompletion) -> Self {
        let opcode = match done.write_imm {
            true => WcOpcode::RecvRdmaWithImm,
            false => WcOpcode::Recv,
        };
        let mut completion = Self::new(qp, wr_id, opcode, done.status, done.byte_len);
        completion.wc.data = match (done.imm, done.inv_rkey) {
            (Some(imm), _) => WcData::Imm(imm),
            (None, Some(rkey)) => WcData::Invalidated(rkey),
            (None, None) => WcData::None,
        };
        completion.solicited |= done.solicited;
        completion
    }

    /// The completion of a flushed receive work request.
    pub(crate) fn recv_flushed(qp: QpId, wr_id: u64) -> Self {
        Self::new(qp, wr_id, WcOpcode::Recv, Status::WrFlush, 0)
    }

    /// The form of the completion in the ring of a process. The `sl` of a datagram is its packet
    /// type, as RoCE packets have no service level. A kernel consumer's completions have no packet
    /// type.
    #[inline]
    pub(crate) fn uverbs_wc(&self) -> UverbsWc {
        let wc = &self.wc;
        let (ex, data) = match wc.data {
            WcData::None => ([0; 4], 0),
            WcData::Imm(imm) => (imm, wc_flag::WITH_IMM),
            WcData::Invalidated(rkey) => (rkey.to_ne_bytes(), wc_flag::WITH_INV),
        };
        let (sl, grh) = match wc.grh {
            None => (0, 0),
            Some(Network::V4) => (packet_type::ROCE_V2_IPV4, wc_flag::GRH),
            Some(Network::V6) => (packet_type::ROCE_V2_IPV6, wc_flag::GRH),
        };
        UverbsWc {
            wr_id: wc.wr_id,
            status: wc.status.raw(),
            opcode: wc.opcode.raw(),
            vendor_err: 0,
            byte_len: wc.byte_len,
            ex,
            qp_num: self.qpn,
            src_qp: wc.src_qp,
            wc_flags: data | grh,
            pkey_index: 0,
            slid: 0,
            sl,
            dlid_path_bits: 0,
            port_num: 1,
            reserved: 0,
        }
    }
}
