// SPDX-License-Identifier: GPL-2.0

//! Checks at compile time that the structures of `device/uabi` have the layout of the kernel's
//! headers.

// rustc does not count names in `const _` as used.
#![allow(dead_code)]

use super::uabi::cqe::UverbsWc;
use super::uabi::resp::{
    MmInfo, RxeCreateCqResp, RxeCreateQpResp, RxeCreateSrqResp, RxeModifySrqCmd, RxeResizeCqResp,
};
use super::uabi::ring::RxeQueueBuf;
use super::uabi::wqe::{
    self, AtomicWr, DmaHead, FlushWr, MwWr, Op, RdmaWr, RxeDmaInfo, RxeRecvWqe, RxeSendWqe,
    RxeSendWr, RxeSge, UdWr,
};
use crate::rdma::rxe_abi::{self, field};
use core::mem::size_of;
use core::ops::Range;

const fn same(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start == b.start && a.end == b.end
}

/// Asserts that fields of a type are where those of `rxe_abi::$abi` are.
macro_rules! check_fields {
    ($type:ty, $abi:ident { $($name:ident = $($field:ident).+,)* }) => {
        $(const _: () = assert!(
            same(&field!($type, $($field).+), &rxe_abi::$abi::$name),
            concat!(stringify!($type), " and rdma_user_rxe.h differ in ", stringify!($name)),
        );)*
    };
}

/// Asserts that a type is as long as that of `rxe_abi::$abi`, too.
macro_rules! check_layout {
    ($type:ty, $abi:ident { $($fields:tt)* }) => {
        const _: () = assert!(size_of::<$type>() == rxe_abi::$abi::SIZE);
        check_fields!($type, $abi { $($fields)* });
    };
}

check_layout!(RxeQueueBuf, queue_buf {
    LOG2_ELEM_SIZE = log2_elem_size,
    INDEX_MASK = index_mask,
    PAD_1 = pad_1,
    PRODUCER_INDEX = producer_index,
    PAD_2 = pad_2,
    CONSUMER_INDEX = consumer_index,
    PAD_3 = pad_3,
});
const _: () = assert!(size_of::<RxeQueueBuf>() == rxe_abi::QUEUE_DATA);

check_layout!(RxeSge, sge {
    ADDR = addr,
    LENGTH = length,
    LKEY = lkey,
});

check_layout!(RxeSendWqe, send_wqe {
    WR_ID = wr.wr_id,
    RESERVED = wr.reserved,
    OPCODE = wr.opcode,
    SEND_FLAGS = wr.send_flags,
    EX = wr.ex,
    STATUS = status,
    STATE = state,
    IOVA = iova,
    MASK = mask,
    FIRST_PSN = first_psn,
    LAST_PSN = last_psn,
    ACK_LENGTH = ack_length,
    SSN = ssn,
    HAS_RD_ATOMIC = has_rd_atomic,
    DMA = dma,
});
// The union is split: `wr.wr` and `av`.
const UNION: Range<usize> = field!(RxeSendWqe, wr.wr).start..field!(RxeSendWqe, av).end;
const _: () = assert!(same(&UNION, &rxe_abi::send_wqe::WR));
const _: () = assert!(field!(RxeSendWqe, wr.wr).end == field!(RxeSendWqe, av).start);
const _: () = assert!(field!(RxeSendWr, wr).end == size_of::<RxeSendWr>());

check_layout!(RdmaWr, rdma_wr {
    REMOTE_ADDR = remote_addr,
    RKEY = rkey,
    RESERVED = reserved,
});

check_layout!(AtomicWr, atomic_wr {
    REMOTE_ADDR = remote_addr,
    COMPARE_ADD = compare_add,
    SWAP = swap,
    RKEY = rkey,
    RESERVED = reserved,
});

check_layout!(FlushWr, flush_wr {
    REMOTE_ADDR = remote_addr,
    LENGTH = length,
    RKEY = rkey,
    TYPE = kind,
    LEVEL = level,
});

check_layout!(MwWr, mw_wr {
    ADDR = addr,
    LENGTH = length,
    MR_LKEY = mr_lkey,
    MW_RKEY = mw_rkey,
    RKEY = rkey,
    ACCESS = access,
});

check_fields!(UdWr, ud_wr {
    REMOTE_QPN = remote_qpn,
    REMOTE_QKEY = remote_qkey,
    PKEY_INDEX = pkey_index,
    RESERVED = reserved,
    AH_NUM = ah_num,
    PAD = pad,
});
// The address vector follows it, and is not part of it.
const _: () = assert!(size_of::<UdWr>() == rxe_abi::ud_wr::AV.start);
const _: () = assert!(UNION.start + rxe_abi::ud_wr::AV.start == field!(RxeSendWqe, av).start);

check_layout!(RxeDmaInfo, dma_info {
    LENGTH = head.length,
    RESID = head.resid,
    CUR_SGE = head.cur_sge,
    NUM_SGE = head.num_sge,
    SGE_OFFSET = sge_offset,
    RESERVED = reserved,
});
const _: () = assert!(size_of::<RxeDmaInfo>() == rxe_abi::DMA_DATA);
const _: () = assert!(size_of::<DmaHead>() == rxe_abi::dma_info::NUM_SGE.end);

check_layout!(RxeRecvWqe, recv_wqe {
    WR_ID = wr_id,
    RESERVED = reserved,
    PADDING = padding,
    DMA = dma,
});

check_layout!(UverbsWc, uverbs_wc {
    WR_ID = wr_id,
    STATUS = status,
    OPCODE = opcode,
    VENDOR_ERR = vendor_err,
    BYTE_LEN = byte_len,
    EX = ex,
    QP_NUM = qp_num,
    SRC_QP = src_qp,
    WC_FLAGS = wc_flags,
    PKEY_INDEX = pkey_index,
    SLID = slid,
    SL = sl,
    DLID_PATH_BITS = dlid_path_bits,
    PORT_NUM = port_num,
    RESERVED = reserved,
});

check_layout!(MmInfo, mminfo {
    OFFSET = offset,
    SIZE_FIELD = size,
    PAD = pad,
});

check_layout!(RxeCreateCqResp, create_cq_resp {
    MI = mi,
});

check_layout!(RxeResizeCqResp, resize_cq_resp {
    MI = mi,
});

check_layout!(RxeCreateQpResp, create_qp_resp {
    RQ_MI = rq_mi,
    SQ_MI = sq_mi,
});

check_layout!(RxeCreateSrqResp, create_srq_resp {
    MI = mi,
    SRQ_NUM = srq_num,
    RESERVED = reserved,
});

check_layout!(RxeModifySrqCmd, modify_srq_cmd {
    MMAP_INFO_ADDR = mmap_info_addr,
});

const _: () = {
    use rxe_abi::wr_opcode;

    assert!(Op::Write as u32 == wr_opcode::RDMA_WRITE);
    assert!(Op::WriteImm as u32 == wr_opcode::RDMA_WRITE_WITH_IMM);
    assert!(Op::Send as u32 == wr_opcode::SEND);
    assert!(Op::SendImm as u32 == wr_opcode::SEND_WITH_IMM);
    assert!(Op::Read as u32 == wr_opcode::RDMA_READ);
    assert!(Op::CompareSwap as u32 == wr_opcode::ATOMIC_CMP_AND_SWP);
    assert!(Op::FetchAdd as u32 == wr_opcode::ATOMIC_FETCH_AND_ADD);
    assert!(Op::LocalInv as u32 == wr_opcode::LOCAL_INV);
    assert!(Op::BindMw as u32 == wr_opcode::BIND_MW);
    assert!(Op::SendInv as u32 == wr_opcode::SEND_WITH_INV);
    assert!(Op::ReadInv as u32 == wr_opcode::RDMA_READ_WITH_INV);
    assert!(Op::Flush as u32 == wr_opcode::FLUSH);
    assert!(Op::AtomicWrite as u32 == wr_opcode::ATOMIC_WRITE);
    assert!(Op::RegMr as u32 == wr_opcode::REG_MR);
};

const _: () = {
    use rxe_abi::send_flag;

    assert!(wqe::send_flag::FENCE == send_flag::FENCE);
    assert!(wqe::send_flag::SIGNALED == send_flag::SIGNALED);
    assert!(wqe::send_flag::SOLICITED == send_flag::SOLICITED);
    assert!(wqe::send_flag::INLINE == send_flag::INLINE);
};
