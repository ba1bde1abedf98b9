// SPDX-License-Identifier: GPL-2.0

//! Completions as kernel users poll them.

use super::gid::Network;
use super::qp::QpToken;
use crate::ffi;
use core::marker::PhantomData;

/// The completion status of a work request: `enum ib_wc_status`, whose numbers processes use too
/// (IBTA Vol 1, 11.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum WcStatus {
    #[default]
    Success = ffi::ib_wc_status_IB_WC_SUCCESS,
    LocLen = ffi::ib_wc_status_IB_WC_LOC_LEN_ERR,
    LocQpOp = ffi::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    LocProt = ffi::ib_wc_status_IB_WC_LOC_PROT_ERR,
    WrFlush = ffi::ib_wc_status_IB_WC_WR_FLUSH_ERR,
    MwBind = ffi::ib_wc_status_IB_WC_MW_BIND_ERR,
    BadResp = ffi::ib_wc_status_IB_WC_BAD_RESP_ERR,
    LocAccess = ffi::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
    RemInvReq = ffi::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    RemAccess = ffi::ib_wc_status_IB_WC_REM_ACCESS_ERR,
    RemOp = ffi::ib_wc_status_IB_WC_REM_OP_ERR,
    RetryExc = ffi::ib_wc_status_IB_WC_RETRY_EXC_ERR,
    RnrRetryExc = ffi::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
    RemAbort = ffi::ib_wc_status_IB_WC_REM_ABORT_ERR,
    General = ffi::ib_wc_status_IB_WC_GENERAL_ERR,
}

impl WcStatus {
    /// The number that kernel users and processes know it by.
    pub(crate) const fn raw(self) -> u32 {
        self as u32
    }
}

/// The operation that was completed: `enum ib_wc_opcode`, whose numbers processes use too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum WcOpcode {
    #[default]
    Send = ffi::ib_wc_opcode_IB_WC_SEND,
    RdmaWrite = ffi::ib_wc_opcode_IB_WC_RDMA_WRITE,
    RdmaRead = ffi::ib_wc_opcode_IB_WC_RDMA_READ,
    CompSwap = ffi::ib_wc_opcode_IB_WC_COMP_SWAP,
    FetchAdd = ffi::ib_wc_opcode_IB_WC_FETCH_ADD,
    BindMw = ffi::ib_wc_opcode_IB_WC_BIND_MW,
    LocalInv = ffi::ib_wc_opcode_IB_WC_LOCAL_INV,
    RegMr = ffi::ib_wc_opcode_IB_WC_REG_MR,
    Flush = ffi::ib_wc_opcode_IB_WC_FLUSH,
    AtomicWrite = ffi::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
    Recv = ffi::ib_wc_opcode_IB_WC_RECV,
    RecvRdmaWithImm = ffi::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
}

impl WcOpcode {
    /// The number that kernel users and processes know it by.
    pub(crate) const fn raw(self) -> u32 {
        self as u32
    }
}

/// Immediate data, or the invalidated key, of a receive completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WcData {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, in network byte order.
    Imm([u8; 4]),
    /// The key that was invalidated at the peer's request.
    Invalidated(u32),
}

/// A completion for a kernel user: a [`struct ib_wc`].
///
/// [`struct ib_wc`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wc {
    /// The kernel user's identifier of the request.
    pub(crate) wr_id: u64,
    /// The completion status.
    pub(crate) status: WcStatus,
    /// The operation.
    pub(crate) opcode: WcOpcode,
    /// Bytes received, or read.
    pub(crate) byte_len: u32,
    /// The queue pair (see [`super::events::QpEvents::token`]).
    pub(crate) qp: QpToken,
    /// Immediate data or the invalidated key, if there is one.
    pub(crate) data: WcData,
    /// The sender's QP number, of a datagram.
    pub(crate) src_qp: u32,
    /// The index of the P_Key, of a management datagram (MAD).
    pub(crate) pkey_index: u16,
    /// The receive buffer starts with 40 bytes of GRH, which holds headers of this IP version.
    pub(crate) grh: Option<Network>,
    /// The sender's MAC address, of a datagram, where known.
    pub(crate) smac: Option<[u8; 6]>,
    /// The id of the VLAN by which a datagram came. ib_core looks for the GID of a reply by it.
    pub(crate) vlan: Option<u16>,
    /// Details of an error, for diagnosis.
    pub(crate) vendor_err: u32,
}

impl Wc {
    /// The kernel's form.
    fn raw(&self) -> ffi::ib_wc {
        let mut flags = 0;
        let mut raw = ffi::ib_wc {
            status: self.status.raw(),
            opcode: self.opcode.raw(),
            vendor_err: self.vendor_err,
            byte_len: self.byte_len,
            qp: self.qp.as_ptr(),
            src_qp: self.src_qp,
            pkey_index: self.pkey_index,
            port_num: super::port::PORT,
            ..Default::default()
        };
        raw.__bindgen_anon_1.bindgen_union_field = self.wr_id;
        match self.data {
            WcData::None => {}
            WcData::Imm(imm) => {
                raw.ex.bindgen_union_field = u32::from_ne_bytes(imm);
                flags |= ffi::ib_wc_flags_IB_WC_WITH_IMM;
            }
            WcData::Invalidated(rkey) => {
                raw.ex.bindgen_union_field = rkey;
                flags |= ffi::ib_wc_flags_IB_WC_WITH_INVALIDATE;
            }
        }
        if let Some(network) = self.grh {
            raw.network_hdr_type = network.raw();
            flags |= ffi::ib_wc_flags_IB_WC_GRH | ffi::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
        }
        if let Some(smac) = self.smac {
            raw.smac = smac;
            flags |= ffi::ib_wc_flags_IB_WC_WITH_SMAC;
        }
        if let Some(vlan) = self.vlan {
            raw.vlan_id = vlan;
            flags |= ffi::ib_wc_flags_IB_WC_WITH_VLAN;
        }
        // CAST: flags are bits, whatever their sign.
        raw.wc_flags = flags as kernel::ffi::c_int;
        raw
    }
}

/// The array of completions that a kernel user passed to poll.
///
/// # Invariants
///
/// `next` is valid for writing `room` completions during `'a`.
pub(crate) struct WcSlots<'a> {
    next: *mut ffi::ib_wc,
    room: usize,
    filled: usize,
    _borrow: PhantomData<&'a mut ffi::ib_wc>,
}

impl WcSlots<'_> {
    /// # Safety
    ///
    /// `wc` is valid for writing `room` completions while the result lives.
    pub(super) unsafe fn new(wc: *mut ffi::ib_wc, room: usize) -> Self {
        // INVARIANT: by the requirement of this function.
        WcSlots {
            next: wc,
            room,
            filled: 0,
            _borrow: PhantomData,
        }
    }

    /// Whether there is no room left.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Writes a completion to the next slot. Returns false, and does nothing, if there is no room.
    pub(crate) fn push(&mut self, wc: &Wc) -> bool {
        if self.is_full() {
            return false;
        }
        // SAFETY: by the type's invariant there is room for at least one.
        unsafe { self.next.write(wc.raw()) };
        // INVARIANT: `next` is one further, and `room` one less.
        // SAFETY: the slot that was written is inside the array, so the next one is inside or just
        // behind it.
        self.next = unsafe { self.next.add(1) };
        self.room -= 1;
        self.filled += 1;
        true
    }

    /// How many completions were written.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }
}
