// SPDX-License-Identifier: GPL-2.0

//! The layout of the structures that librxe and the driver share, as the kernel's headers have it
//! (rdma_user_rxe.h, ib_user_verbs.h): sizes, fields and numbers, for comparison at compile time.
//!
//! Each structure is a module here, and each of its fields a constant in that module: the range of
//! the field's bytes.

// rustc does not count the comparisons in `const _` as uses.
#![expect(dead_code)]

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
    /// `struct rxe_queue_buf`, without the elements (see [`QUEUE_DATA`]).
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
    /// `struct rxe_sge`.
    sge: rxe_sge {
        ADDR = addr,
        LENGTH = length,
        LKEY = lkey,
    }
}

layout! {
    /// `struct rxe_send_wqe`, without its SGEs.
    send_wqe: rxe_send_wqe {
        WR_ID = wr.wr_id,
        RESERVED = wr.reserved,
        OPCODE = wr.opcode,
        SEND_FLAGS = wr.send_flags,
        EX = wr.ex,
        WR = wr.wr,
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
    }
}

// bindgen numbers the forms of the union `wr` of `struct rxe_send_wr`. Below is a check that the
// numbers are right.

layout! {
    /// `wr.flush` of `struct rxe_send_wr`.
    flush_wr: rxe_send_wr__bindgen_ty_2__bindgen_ty_1 {
        REMOTE_ADDR = remote_addr,
        LENGTH = length,
        RKEY = rkey,
        TYPE = type_,
        LEVEL = level,
    }
}

layout! {
    /// `wr.rdma` of `struct rxe_send_wr`.
    rdma_wr: rxe_send_wr__bindgen_ty_2__bindgen_ty_2 {
        REMOTE_ADDR = remote_addr,
        RKEY = rkey,
        RESERVED = reserved,
    }
}

layout! {
    /// `wr.atomic` of `struct rxe_send_wr`.
    atomic_wr: rxe_send_wr__bindgen_ty_2__bindgen_ty_3 {
        REMOTE_ADDR = remote_addr,
        COMPARE_ADD = compare_add,
        SWAP = swap,
        RKEY = rkey,
        RESERVED = reserved,
    }
}

layout! {
    /// `wr.ud` of `struct rxe_send_wr`.
    ud_wr: rxe_send_wr__bindgen_ty_2__bindgen_ty_4 {
        REMOTE_QPN = remote_qpn,
        REMOTE_QKEY = remote_qkey,
        PKEY_INDEX = pkey_index,
        RESERVED = reserved,
        AH_NUM = ah_num,
        PAD = pad,
        AV = av,
    }
}

layout! {
    /// `wr.mw` of `struct rxe_send_wr`.
    mw_wr: rxe_send_wr__bindgen_ty_2__bindgen_ty_5 {
        ADDR = addr,
        LENGTH = length,
        MR_LKEY = mr_lkey,
        MW_RKEY = mw_rkey,
        RKEY = rkey,
        ACCESS = access,
    }
}

const _: () = {
    use ffi::__BindgenUnionField as Form;
    type Union = ffi::rxe_send_wr__bindgen_ty_2;

    let _: fn(&Union) -> &Form<ffi::rxe_send_wr__bindgen_ty_2__bindgen_ty_1> = |wr| &wr.flush;
    let _: fn(&Union) -> &Form<ffi::rxe_send_wr__bindgen_ty_2__bindgen_ty_2> = |wr| &wr.rdma;
    let _: fn(&Union) -> &Form<ffi::rxe_send_wr__bindgen_ty_2__bindgen_ty_3> = |wr| &wr.atomic;
    let _: fn(&Union) -> &Form<ffi::rxe_send_wr__bindgen_ty_2__bindgen_ty_4> = |wr| &wr.ud;
    let _: fn(&Union) -> &Form<ffi::rxe_send_wr__bindgen_ty_2__bindgen_ty_5> = |wr| &wr.mw;
};

layout! {
    /// `struct rxe_dma_info`, without its SGEs.
    dma_info: rxe_dma_info {
        LENGTH = length,
        RESID = resid,
        CUR_SGE = cur_sge,
        NUM_SGE = num_sge,
        SGE_OFFSET = sge_offset,
        RESERVED = reserved,
    }
}

/// Where the SGEs, the inline data or the value of an ATOMIC WRITE begin in a `struct
/// rxe_dma_info`.
pub(crate) const DMA_DATA: usize = offset_of!(ffi::rxe_dma_info, __bindgen_anon_1);

layout! {
    /// `struct rxe_recv_wqe`, without its SGEs.
    recv_wqe: rxe_recv_wqe {
        WR_ID = wr_id,
        RESERVED = reserved,
        PADDING = padding,
        DMA = dma,
    }
}

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
    /// `struct rxe_resize_cq_resp`.
    resize_cq_resp: rxe_resize_cq_resp {
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

layout! {
    /// `struct rxe_create_srq_resp`.
    create_srq_resp: rxe_create_srq_resp {
        MI = mi,
        SRQ_NUM = srq_num,
        RESERVED = reserved,
    }
}

layout! {
    /// `struct rxe_modify_srq_cmd`.
    modify_srq_cmd: rxe_modify_srq_cmd {
        MMAP_INFO_ADDR = mmap_info_addr,
    }
}

/// `enum ib_uverbs_wr_opcode`, as far as the driver supports them.
pub(crate) mod wr_opcode {
    use crate::ffi;

    pub(crate) const RDMA_WRITE: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_WRITE;
    pub(crate) const RDMA_WRITE_WITH_IMM: u32 =
        ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_WRITE_WITH_IMM;
    pub(crate) const SEND: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND;
    pub(crate) const SEND_WITH_IMM: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND_WITH_IMM;
    pub(crate) const RDMA_READ: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_READ;
    pub(crate) const ATOMIC_CMP_AND_SWP: u32 =
        ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_CMP_AND_SWP;
    pub(crate) const ATOMIC_FETCH_AND_ADD: u32 =
        ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
    pub(crate) const LOCAL_INV: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_LOCAL_INV;
    pub(crate) const BIND_MW: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_BIND_MW;
    pub(crate) const SEND_WITH_INV: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND_WITH_INV;
    pub(crate) const RDMA_READ_WITH_INV: u32 =
        ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_READ_WITH_INV;
    pub(crate) const FLUSH: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_FLUSH;
    pub(crate) const ATOMIC_WRITE: u32 = ffi::ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_WRITE;
    /// For kernel users alone.
    pub(crate) const REG_MR: u32 = ffi::ib_wr_opcode_IB_WR_REG_MR;
}

/// `enum ib_send_flags`, as far as the driver supports them.
pub(crate) mod send_flag {
    use crate::ffi;

    pub(crate) const FENCE: u32 = ffi::ib_send_flags_IB_SEND_FENCE as u32;
    pub(crate) const SIGNALED: u32 = ffi::ib_send_flags_IB_SEND_SIGNALED as u32;
    pub(crate) const SOLICITED: u32 = ffi::ib_send_flags_IB_SEND_SOLICITED as u32;
    pub(crate) const INLINE: u32 = ffi::ib_send_flags_IB_SEND_INLINE as u32;
}
