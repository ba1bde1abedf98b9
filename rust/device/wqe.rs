// SPDX-License-Identifier: GPL-2.0

//! Work requests as they stand in a ring: `struct rxe_send_wqe` and `struct rxe_recv_wqe` of
//! rdma_user_rxe.h, little-endian as the processor.
//!
//! Here bytes become values, and nothing else: what is read is a copy, and no field of it is
//! believed. Fields that the ABI has for the driver's own use (status, state, resid and so on) are
//! neither read nor written.

/// A send WQE up to its SGEs or inline data.
pub(crate) const SEND_HEAD: usize = 208;
/// The part of a send WQE that says what to do, at its start; the other is [`SEND_DMA`].
pub(crate) const WHAT_LEN: usize = WR + WR_LEN;
/// Where a send WQE says how much there is.
pub(crate) const SEND_DMA: usize = 184;
/// The part of it that is read.
pub(crate) const DMA_LEN: usize = 16;
/// A receive WQE up to its SGEs.
pub(crate) const RECV_HEAD: usize = 40;
/// An SGE.
pub(crate) const SGE_LEN: usize = 16;

// Offsets within a send WQE.
const WR_ID: usize = 0;
const OPCODE: usize = 12;
const SEND_FLAGS: usize = 16;
const EX: usize = 20;
const WR: usize = 24;
/// The bytes of the union that the driver reads; the rest is an address vector, in its stead a
/// number.
const WR_LEN: usize = 40;
// Offsets of `struct rxe_dma_info`, in a send WQE and in a receive WQE.
const RECV_DMA: usize = 16;
const DMA_LENGTH: usize = 0;
const DMA_NUM_SGE: usize = 12;

/// What a send WQE asks for: the opcodes of `enum ib_wr_opcode`, which are those of libibverbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Op {
    Write = 0,
    WriteImm = 1,
    Send = 2,
    SendImm = 3,
    Read = 4,
    CompareSwap = 5,
    FetchAdd = 6,
    SendInv = 9,
}

impl Op {
    /// The opcode with this number, if the driver carries it out.
    pub(crate) fn from_u32(value: u32) -> Option<Self> {
        Some(match value {
            0 => Op::Write,
            1 => Op::WriteImm,
            2 => Op::Send,
            3 => Op::SendImm,
            4 => Op::Read,
            5 => Op::CompareSwap,
            6 => Op::FetchAdd,
            9 => Op::SendInv,
            _ => return None,
        })
    }
}

/// `enum ib_send_flags`.
pub(crate) mod flag {
    pub(crate) const FENCE: u32 = 1 << 0;
    pub(crate) const SIGNALED: u32 = 1 << 1;
    pub(crate) const SOLICITED: u32 = 1 << 2;
    pub(crate) const INLINE: u32 = 1 << 3;
}

/// A scatter/gather element as posted. `length` 0 is an empty one (the driver has no 2^31 rule for
/// it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawSge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

impl RawSge {
    /// Reads one.
    pub(crate) fn parse(bytes: &[u8; SGE_LEN]) -> Self {
        RawSge {
            addr: u64_at(bytes, 0),
            length: u32_at(bytes, 8),
            lkey: u32_at(bytes, 12),
        }
    }

    /// Writes one.
    pub(crate) fn emit(&self) -> [u8; SGE_LEN] {
        let mut out = [0; SGE_LEN];
        put(&mut out, 0, &self.addr.to_ne_bytes());
        put(&mut out, 8, &self.length.to_ne_bytes());
        put(&mut out, 12, &self.lkey.to_ne_bytes());
        out
    }
}

/// The part of a send WQE that is the same for every service, and the three forms of its union.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    pub(crate) wr_id: u64,
    pub(crate) opcode: u32,
    pub(crate) flags: u32,
    /// Immediate data in the order of the wire, or the key to invalidate in host order.
    pub(crate) ex: [u8; 4],
    /// Bytes of the message; for inline data, of these.
    pub(crate) length: u32,
    pub(crate) num_sge: u32,
    wr: [u8; WR_LEN],
}

/// `wr.ud` of a send WQE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdPart {
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
    pub(crate) pkey_index: u16,
    pub(crate) ah_num: u32,
}

impl SendWqe {
    /// Reads the two parts of a send WQE.
    #[inline]
    pub(crate) fn parse(what: &[u8; WHAT_LEN], dma: &[u8; DMA_LEN]) -> Self {
        SendWqe {
            wr_id: u64_at(what, WR_ID),
            opcode: u32_at(what, OPCODE),
            flags: u32_at(what, SEND_FLAGS),
            ex: array(what, EX),
            length: u32_at(dma, DMA_LENGTH),
            num_sge: u32_at(dma, DMA_NUM_SGE),
            wr: array(what, WR),
        }
    }

    /// A WQE to be written by [`SendWqe::emit`].
    pub(crate) fn new(wr_id: u64, op: Op, flags: u32, ex: [u8; 4]) -> Self {
        SendWqe {
            wr_id,
            opcode: op as u32,
            flags,
            ex,
            length: 0,
            num_sge: 0,
            wr: [0; WR_LEN],
        }
    }

    /// Writes the head.
    pub(crate) fn emit(&self) -> [u8; SEND_HEAD] {
        let mut out = [0; SEND_HEAD];
        put(&mut out, WR_ID, &self.wr_id.to_ne_bytes());
        put(&mut out, OPCODE, &self.opcode.to_ne_bytes());
        put(&mut out, SEND_FLAGS, &self.flags.to_ne_bytes());
        put(&mut out, EX, &self.ex);
        put(&mut out, WR, &self.wr);
        put(&mut out, SEND_DMA + DMA_LENGTH, &self.length.to_ne_bytes());
        put(
            &mut out,
            SEND_DMA + DMA_NUM_SGE,
            &self.num_sge.to_ne_bytes(),
        );
        out
    }

    /// Remote address and key, of `wr.rdma`.
    pub(crate) fn rdma(&self) -> (u64, u32) {
        (u64_at(&self.wr, 0), u32_at(&self.wr, 8))
    }

    /// Sets `wr.rdma`.
    pub(crate) fn set_rdma(&mut self, va: u64, rkey: u32) {
        put(&mut self.wr, 0, &va.to_ne_bytes());
        put(&mut self.wr, 8, &rkey.to_ne_bytes());
    }

    /// Remote address, key, the value to compare or add, and the value to swap, of `wr.atomic`.
    pub(crate) fn atomic(&self) -> (u64, u32, u64, u64) {
        (
            u64_at(&self.wr, 0),
            u32_at(&self.wr, 24),
            u64_at(&self.wr, 8),
            u64_at(&self.wr, 16),
        )
    }

    /// Sets `wr.atomic`.
    pub(crate) fn set_atomic(&mut self, va: u64, rkey: u32, compare_add: u64, swap: u64) {
        put(&mut self.wr, 0, &va.to_ne_bytes());
        put(&mut self.wr, 8, &compare_add.to_ne_bytes());
        put(&mut self.wr, 16, &swap.to_ne_bytes());
        put(&mut self.wr, 24, &rkey.to_ne_bytes());
    }

    /// `wr.ud`.
    pub(crate) fn ud(&self) -> UdPart {
        UdPart {
            remote_qpn: u32_at(&self.wr, 0),
            remote_qkey: u32_at(&self.wr, 4),
            pkey_index: u16_at(&self.wr, 8),
            ah_num: u32_at(&self.wr, 12),
        }
    }

    /// Sets `wr.ud`.
    pub(crate) fn set_ud(&mut self, ud: &UdPart) {
        put(&mut self.wr, 0, &ud.remote_qpn.to_ne_bytes());
        put(&mut self.wr, 4, &ud.remote_qkey.to_ne_bytes());
        put(&mut self.wr, 8, &ud.pkey_index.to_ne_bytes());
        put(&mut self.wr, 12, &ud.ah_num.to_ne_bytes());
    }

    /// Whether `flag` is set.
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The head of a receive WQE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    pub(crate) num_sge: u32,
}

impl RecvWqe {
    /// Reads one.
    pub(crate) fn parse(bytes: &[u8; RECV_HEAD]) -> Self {
        RecvWqe {
            wr_id: u64_at(bytes, 0),
            num_sge: u32_at(bytes, RECV_DMA + DMA_NUM_SGE),
        }
    }

    /// Writes one.
    pub(crate) fn emit(&self) -> [u8; RECV_HEAD] {
        let mut out = [0; RECV_HEAD];
        put(&mut out, 0, &self.wr_id.to_ne_bytes());
        put(
            &mut out,
            RECV_DMA + DMA_NUM_SGE,
            &self.num_sge.to_ne_bytes(),
        );
        out
    }
}

/// The bytes at a constant offset inside the array they are read from; zeros if that were wrong.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, at))
}

/// Copies `bytes` to a constant offset, where there is room for them.
fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..bytes.len()))
    {
        place.copy_from_slice(bytes);
    }
}
