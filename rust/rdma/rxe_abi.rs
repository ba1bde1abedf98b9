// SPDX-License-Identifier: GPL-2.0

//! The layout of the structures that librxe and the driver share, as the kernel's headers have it
//! (rdma_user_rxe.h, ib_user_verbs.h): sizes, fields and numbers, for comparison at compile time.
//!
//! A structure is a module here, a field a constant in it: the range of its bytes.

// rustc does not count it as a use that `const _` compares them.
#![allow(dead_code)]

use crate::ffi;
use core::mem::{offset_of, size_of};
use core::ops::Range;

/// The bytes that a field has in a structure.
macro_rules! field {
    ($type:ty, $($field:ident).+) => {{
        const fn size<T, F>(_field: fn(&T) -> &F) -> usize {
            core::mem::size_of::<F>()
        }
        let start = core::mem::offset_of!($type, $($field).+);
        start..start + size::<$type, _>(|value| &value.$($field).+)
    }};
}
pub(crate) use field;

/// Makes the module of a structure.
macro_rules! layout {
    ($(#[$doc:meta])* $module:ident: $type:ident { $($name:ident = $($field:ident).+,)* }) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use super::*;

            pub(crate) const SIZE: usize = size_of::<ffi::$type>();
            $(pub(crate) const $name: Range<usize> = field!(ffi::$type, $($field).+);)*
        }
    };
}

layout! {
    /// `struct rxe_queue_buf`, where its elements begin apart.
    queue_buf: rxe_queue_buf {
        LOG2_ELEM_SIZE = log2_elem_size,
        INDEX_MASK = index_mask,
        PAD_1 = pad_1,
        PRODUCER_INDEX = producer_index,
        PAD_2 = pad_2,
        CONSUMER_INDEX = consumer_index,
        PAD_3 = pad_3,
    }
}

/// Where the elements of a ring begin.
pub(crate) const QUEUE_DATA: usize = offset_of!(ffi::rxe_queue_buf, data);

layout! {
    /// `struct ib_uverbs_wc`.
    uverbs_wc: ib_uverbs_wc {
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
    }
}

layout! {
    /// `struct mminfo`.
    mminfo: mminfo {
        OFFSET = offset,
        SIZE_FIELD = size,
        PAD = pad,
    }
}

layout! {
    /// `struct rxe_create_cq_resp`.
    create_cq_resp: rxe_create_cq_resp {
        MI = mi,
    }
}

layout! {
    /// `struct rxe_create_qp_resp`.
    create_qp_resp: rxe_create_qp_resp {
        RQ_MI = rq_mi,
        SQ_MI = sq_mi,
    }
}
