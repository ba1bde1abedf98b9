// SPDX-License-Identifier: GPL-2.0

//! A completion, as the driver makes it, and its form in a user's ring (`struct ib_uverbs_wc`).

use super::wqe::{put, Op};
use crate::proto::transport::{RecvCompletion, Status};
use crate::rdma::gid::Network;
use crate::rdma::qp::QpToken;
use crate::rdma::wc::{Wc, WcData, WcOpcode, WcStatus};

/// The length of a completion in a user's ring.
pub(crate) const CQE_LEN: usize = 48;

// Flags of libibverbs' completions; the kernel's differ and are rdma::wc's business.
const USER_GRH: u32 = 1 << 0;
const USER_WITH_IMM: u32 = 1 << 1;
const USER_WITH_INV: u32 = 1 << 3;

/// The packet type of a datagram, as mlx5 completions carry it in `sl`: RoCE with a GRH (bit 3),
/// and the IP version. UCX reads it there to know which header the datagram begins with.
const fn packet_type(network: Network) -> u8 {
    const ROCE: u8 = 0x8;
    match network {
        Network::V6 => ROCE | 1,
        Network::V4 => ROCE | 2,
    }
}

/// The QP that a completion names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpId {
    /// Its number, by which a process knows it.
    pub(crate) qpn: u32,
    /// Its structure, by which a kernel user knows it.
    pub(crate) token: QpToken,
}

/// A work request is done with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// As a kernel user sees it.
    pub(crate) wc: Wc,
    /// The number of the QP, by which a process knows it.
    qpn: u32,
    /// Wakes a CQ that is armed for solicited completions only: asked for by the sender, or an
    /// error (IBTA 11.4.2.2).
    pub(crate) solicited: bool,
}

fn opcode(op: Op) -> WcOpcode {
    match op {
        Op::Send | Op::SendImm | Op::SendInv => WcOpcode::Send,
        Op::Write | Op::WriteImm => WcOpcode::RdmaWrite,
        Op::Read => WcOpcode::RdmaRead,
        Op::CompareSwap => WcOpcode::CompSwap,
        Op::FetchAdd => WcOpcode::FetchAdd,
    }
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
                vendor_err: 0,
            },
            qpn: qp.qpn,
            solicited: status != Status::Success,
        }
    }

    /// Of a send work request.
    pub(crate) fn send(qp: QpId, wr_id: u64, op: Op, status: Status, byte_len: u32) -> Self {
        Self::new(qp, wr_id, opcode(op), status, byte_len)
    }

    /// Of a receive work request.
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

    /// Of a receive work request that was flushed.
    pub(crate) fn recv_flushed(qp: QpId, wr_id: u64) -> Self {
        Self::new(qp, wr_id, WcOpcode::Recv, Status::WrFlush, 0)
    }

    /// Its form in a user's ring, in the processor's byte order: wr_id 0, status 8, opcode 12,
    /// vendor_err 16, byte_len 20, imm or rkey 24, qp_num 28, src_qp 32, wc_flags 36, pkey_index
    /// 40, slid 42, sl 44, dlid_path_bits 45, port_num 46. A datagram's `sl` is its packet type;
    /// RoCE has no service level in packets. A kernel consumer's completions have none.
    #[inline]
    pub(crate) fn user_bytes(&self) -> [u8; CQE_LEN] {
        let wc = &self.wc;
        let (data, mut flags) = match wc.data {
            WcData::None => ([0; 4], 0),
            WcData::Imm(imm) => (imm, USER_WITH_IMM),
            WcData::Invalidated(rkey) => (rkey.to_ne_bytes(), USER_WITH_INV),
        };
        let mut out = [0; CQE_LEN];
        if let Some(network) = wc.grh {
            flags |= USER_GRH;
            put(&mut out, 44, &[packet_type(network)]);
        }
        put(&mut out, 0, &wc.wr_id.to_ne_bytes());
        put(&mut out, 8, &wc.status.raw().to_ne_bytes());
        put(&mut out, 12, &wc.opcode.raw().to_ne_bytes());
        put(&mut out, 20, &wc.byte_len.to_ne_bytes());
        put(&mut out, 24, &data);
        put(&mut out, 28, &self.qpn.to_ne_bytes());
        put(&mut out, 32, &wc.src_qp.to_ne_bytes());
        put(&mut out, 36, &flags.to_ne_bytes());
        put(&mut out, 46, &[1]);
        out
    }
}
