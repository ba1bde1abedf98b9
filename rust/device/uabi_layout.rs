// SPDX-License-Identifier: GPL-2.0

//! The structures of `device/uabi` have the layout that the kernel's headers give them: if not, the
//! driver does not compile.

// rustc does not count it as a use that `const _` calls or names something.
#![allow(dead_code)]

use super::uabi::cqe::UverbsWc;
use super::uabi::resp::{MmInfo, RxeCreateCqResp, RxeCreateQpResp};
use super::uabi::ring::RxeQueueBuf;
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

check_layout!(RxeCreateQpResp, create_qp_resp {
    RQ_MI = rq_mi,
    SQ_MI = sq_mi,
});
