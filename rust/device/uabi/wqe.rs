// SPDX-License-Identifier: GPL-2.0

//! Work requests in the rings of a QP.
//!
//! A send WQE has 208 bytes before its SGEs, but the driver does not need most of them. It takes
//! the address of a datagram from the AH, not from the address vector. It keeps its own state
//! (status, state, PSNs, progress) away from memory that processes write, and does not use the
//! fields that the ABI has for that. It reads two parts, each by its type: [`RxeSendWr`] and
//! [`DmaHead`].

use core::mem::{offset_of, size_of};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

numbers! {
    /// Operations: `enum ib_wr_opcode`, whose numbers libibverbs shares. The driver refuses all
    /// others. REG_MR is for kernel users alone.
    pub(crate) enum Op {
        Write = 0 => ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_WRITE,
        WriteImm = 1 => ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
        Send = 2 => ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND,
        SendImm = 3 => ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND_WITH_IMM,
        Read = 4 => ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_READ,
        CompareSwap = 5 => ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
        FetchAdd = 6 => ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
        LocalInv = 7 => ib_uverbs_wr_opcode_IB_UVERBS_WR_LOCAL_INV,
        BindMw = 8 => ib_uverbs_wr_opcode_IB_UVERBS_WR_BIND_MW,
        SendInv = 9 => ib_uverbs_wr_opcode_IB_UVERBS_WR_SEND_WITH_INV,
        ReadInv = 11 => ib_uverbs_wr_opcode_IB_UVERBS_WR_RDMA_READ_WITH_INV,
        Flush = 14 => ib_uverbs_wr_opcode_IB_UVERBS_WR_FLUSH,
        AtomicWrite = 15 => ib_uverbs_wr_opcode_IB_UVERBS_WR_ATOMIC_WRITE,
        RegMr = 0x20 => ib_wr_opcode_IB_WR_REG_MR,
    }
}

/// Flags of send requests: `enum ib_send_flags`, whose numbers libibverbs shares.
pub(crate) mod send_flag {
    pub(crate) const FENCE: u32 = 1 << 0;
    pub(crate) const SIGNALED: u32 = 1 << 1;
    pub(crate) const SOLICITED: u32 = 1 << 2;
    pub(crate) const INLINE: u32 = 1 << 3;
}

same_numbers! {
    send_flag::FENCE => ib_send_flags_IB_SEND_FENCE,
    send_flag::SIGNALED => ib_send_flags_IB_SEND_SIGNALED,
    send_flag::SOLICITED => ib_send_flags_IB_SEND_SOLICITED,
    send_flag::INLINE => ib_send_flags_IB_SEND_INLINE,
}

abi! {
    /// A scatter/gather element: `struct rxe_sge`. An element of `length` 0 is empty (and does not
    /// mean 2^31).
    #[derive(Default)]
    pub(crate) struct RxeSge = rxe_sge {
        pub(crate) addr: u64,
        pub(crate) length: u32,
        pub(crate) lkey: u32,
    }
}

/// A form of the union in [`RxeSendWr`].
pub(crate) trait WrForm: FromBytes + IntoBytes + Immutable {}

abi! {
    /// `wr.rdma`, of WRITEs, READs and ATOMIC WRITEs.
    #[derive(Default)]
    pub(crate) struct RdmaWr = rxe_rdma_wr {
        pub(crate) remote_addr: u64,
        pub(crate) rkey: u32,
        pub(crate) reserved: u32,
    }
}

impl WrForm for RdmaWr {}

abi! {
    /// `wr.atomic`, of atomics.
    #[derive(Default)]
    pub(crate) struct AtomicWr = rxe_atomic_wr {
        pub(crate) remote_addr: u64,
        pub(crate) compare_add: u64,
        pub(crate) swap: u64,
        pub(crate) rkey: u32,
        pub(crate) reserved: u32,
    }
}

impl WrForm for AtomicWr {}

abi! {
    /// `wr.flush`, of FLUSHes. librxe leaves `length` 0: that of the range is [`DmaHead::length`].
    #[derive(Default)]
    pub(crate) struct FlushWr = rxe_flush_wr {
        pub(crate) remote_addr: u64,
        pub(crate) length: u32,
        pub(crate) rkey: u32,
        /// The placement type: `enum ib_placement_type`.
        pub(crate) kind: u8 => [type_],
        /// The selectivity level: `enum ib_selectivity_level`.
        pub(crate) level: u8,
        pub(crate) reserved: [u8; 6] => _,
    }
}

impl WrForm for FlushWr {}

abi! {
    /// `wr.mw`, of bind requests.
    #[derive(Default)]
    pub(crate) struct MwWr = rxe_mw_wr {
        pub(crate) addr: u64,
        pub(crate) length: u64,
        pub(crate) mr_lkey: u32,
        pub(crate) mw_rkey: u32,
        pub(crate) rkey: u32,
        pub(crate) access: u32,
    }
}

impl WrForm for MwWr {}

/// The parameters of REG_MR. This form is the driver's own: only kernel users post it, and their
/// rings are not shared with processes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct RegWr {
    pub(crate) iova: u64,
    pub(crate) length: u64,
    pub(crate) key: u32,
    pub(crate) access: u32,
}

impl WrForm for RegWr {}

abi! {
    /// `wr.ud`, of datagrams, up to its address vector.
    #[derive(Default)]
    pub(crate) struct UdWr = rxe_ud_wr..av {
        pub(crate) remote_qpn: u32,
        pub(crate) remote_qkey: u32,
        pub(crate) pkey_index: u16,
        pub(crate) reserved: u16,
        pub(crate) ah_num: u32,
        pub(crate) pad: [u32; 4],
    }
}

impl WrForm for UdWr {}

// The address vector of a send WQE follows the forms, and so that of `wr.ud` is where it is in C.
const _: () = assert!(size_of::<UdWr>() == size_of::<AtomicWr>());

abi! {
    /// The operation of a send WQE: `struct rxe_send_wr`, up to the address vector of `wr.ud`.
    pub(crate) struct RxeSendWr = rxe_send_wr.. {
        pub(crate) wr_id: u64,
        pub(crate) reserved: u32,
        /// See [`Op`].
        pub(crate) opcode: u32,
        /// See [`send_flag`].
        pub(crate) send_flags: u32,
        /// Immediate data in wire order, or the key to invalidate in the processor's byte order.
        pub(crate) ex: [u8; 4],
        /// A union of the [`WrForm`]s.
        pub(crate) wr: [u8; size_of::<AtomicWr>()] => [wr..],
    }
}

impl RxeSendWr {
    /// The union, in the form that goes with the opcode and the service.
    #[inline]
    pub(crate) fn form<F: WrForm>(&self) -> F {
        const { assert!(size_of::<F>() <= size_of::<AtomicWr>()) };
        // The assertion shows that it is never too short.
        F::read_from_prefix(&self.wr).map_or_else(|_| F::new_zeroed(), |(form, _)| form)
    }

    /// Sets the union.
    #[inline]
    pub(crate) fn set_form<F: WrForm>(&mut self, form: &F) {
        const { assert!(size_of::<F>() <= size_of::<AtomicWr>()) };
        // The assertion shows that it is never too short.
        let _ = form.write_to_prefix(&mut self.wr);
    }

    /// Whether `flag` of [`send_flag`] is set.
    #[inline]
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.send_flags & flag != 0
    }
}

abi! {
    /// How much data a WQE has: `struct rxe_dma_info`, up to `num_sge`.
    #[derive(Default)]
    pub(crate) struct DmaHead = rxe_dma_info..sge_offset {
        /// Bytes of inline data, of the value of an ATOMIC WRITE, which stands in the place of the
        /// SGEs if there are none, or of the range of a FLUSH. Ignored with SGEs, which have
        /// lengths of their own.
        pub(crate) length: u32,
        pub(crate) resid: u32,
        pub(crate) cur_sge: u32,
        pub(crate) num_sge: u32,
    }

    /// `struct rxe_dma_info`, up to the SGEs or the inline data.
    #[derive(Default)]
    pub(crate) struct RxeDmaInfo = rxe_dma_info..__bindgen_anon_1 {
        pub(crate) head: DmaHead => [length..num_sge],
        pub(crate) sge_offset: u32,
        pub(crate) reserved: u32,
    }

    /// A send WQE up to its SGEs or inline data: `struct rxe_send_wqe`.
    pub(crate) struct RxeSendWqe = rxe_send_wqe {
        pub(crate) wr: RxeSendWr => [wr..],
        /// `struct rxe_av`, the rest of the union in `wr`.
        pub(crate) av: [u64; 11] => [..wr],
        pub(crate) status: u32,
        pub(crate) state: u32,
        pub(crate) iova: u64,
        pub(crate) mask: u32,
        pub(crate) first_psn: u32,
        pub(crate) last_psn: u32,
        pub(crate) ack_length: u32,
        pub(crate) ssn: u32,
        pub(crate) has_rd_atomic: u32,
        pub(crate) dma: RxeDmaInfo,
    }
}

impl RxeSendWqe {
    /// The offset of its [`RxeSendWr`].
    pub(crate) const WR: usize = offset_of!(Self, wr);
    /// The offset of its [`DmaHead`].
    pub(crate) const DMA: usize = offset_of!(Self, dma.head);
    /// The offset of its SGEs or inline data.
    pub(crate) const DATA: usize = size_of::<Self>();

    /// A send WQE without data, as a consumer posts it.
    pub(crate) fn new(wr_id: u64, op: Op, send_flags: u32, ex: [u8; 4]) -> Self {
        RxeSendWqe {
            wr: RxeSendWr {
                wr_id,
                reserved: 0,
                opcode: op as u32,
                send_flags,
                ex,
                wr: [0; size_of::<AtomicWr>()],
            },
            ..Self::new_zeroed()
        }
    }
}

abi! {
    /// A receive WQE up to its SGEs: `struct rxe_recv_wqe`.
    pub(crate) struct RxeRecvWqe = rxe_recv_wqe {
        pub(crate) wr_id: u64,
        pub(crate) reserved: u32,
        pub(crate) padding: u32,
        pub(crate) dma: RxeDmaInfo,
    }
}

impl RxeRecvWqe {
    /// The offset of its SGEs.
    pub(crate) const DATA: usize = size_of::<Self>();

    /// A receive WQE of `num_sge` SGEs, as a consumer posts it.
    pub(crate) fn new(wr_id: u64, num_sge: u32) -> Self {
        let mut wqe = RxeRecvWqe {
            wr_id,
            ..Self::new_zeroed()
        };
        wqe.dma.head.num_sge = num_sge;
        wqe
    }
}

#[cfg(test)]
#[path = "wqe_tests.rs"]
mod tests;
