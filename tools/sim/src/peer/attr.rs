// SPDX-License-Identifier: GPL-2.0

//! The foreign peer's attributes, and what its two halves share.

use crate::api::*;
use crate::rng::Rng;
use oxe_proto::transport::Origin;
use oxe_proto::wire::{BthRepr, Ext, Opcode, PKey, PacketRepr, Psn, Qpn};

/// The choices that the specification leaves to an implementation.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Request packets in flight, at most.
    pub window: u64,
    /// AckReq stands in every packet whose number is a multiple of this, besides the last of each
    /// message.
    pub ack_every: u64,
    /// A READ that was answered in part is asked for from its beginning again.
    pub restarts_reads: bool,
    /// A duplicate READ that begins before the latest one of the same READ is refused: that has
    /// moved the start of what is accepted forward, as rdma_rxe does.
    pub narrows_reads: bool,
    /// Packets are acknowledged that do not ask for it.
    pub eager_acks: bool,
    /// The credit code of ACKs (IBTA 9.7.7.2, Table 48).
    pub credit: u8,
}

impl Style {
    /// Draws any style that is allowed.
    pub fn draw(rng: &mut Rng) -> Style {
        Style {
            window: rng.pick(&[1, 8, 64, 1024]),
            ack_every: rng.pick(&[1, 4, 32]),
            restarts_reads: rng.one_in(3),
            narrows_reads: rng.one_in(2),
            eager_acks: rng.one_in(3),
            credit: rng.pick(&[0x1f, 0x1f, 0, 1, 30]),
        }
    }
}

/// The attributes of the queue pair, as the program set them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attr {
    pub(super) dest_qpn: u32,
    pub(super) pkey: u16,
    pub(super) pmtu: u32,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) max_rd_atomic: usize,
    pub(super) access: oxe_proto::transport::RemoteAccess,
}

impl Attr {
    pub(super) fn bth(&self, opcode: Opcode, psn: u32, payload_len: u32) -> BthRepr {
        let dest = Qpn::new(self.dest_qpn);
        let mut bth = BthRepr::new(opcode, PKey::new(self.pkey), dest, Psn::new(psn));
        bth.pad = (payload_len.wrapping_neg() & 3) as u8;
        bth
    }

    pub(super) fn packets(&self, len: u32) -> u64 {
        u64::from(len.div_ceil(self.pmtu)).max(1)
    }
}

/// The packet count that `psn` stands for, which is less than 2^23 from `near`, a count whose PSN
/// is `near_psn`; `None` for one before the first.
pub(super) fn unwrap_psn(psn: u32, near_psn: u32, near: u64) -> Option<u64> {
    let ahead = psn.wrapping_sub(near_psn) & 0xff_ffff;
    if ahead < 1 << 23 {
        near.checked_add(ahead.into())
    } else {
        near.checked_sub(u64::from(0x100_0000 - ahead))
    }
}

/// Makes a packet.
pub(super) fn packet(bth: BthRepr, ext: Ext, payload: Payload, origin: Origin) -> Transmit {
    Transmit {
        header: PacketRepr { bth, ext },
        payload,
        origin,
        segments: 1,
    }
}
