// SPDX-License-Identifier: GPL-2.0

//! A UC QP.

use super::paging::Paging;
use super::queues::{Keys, RecvRing, SendRing};
use crate::model::uc::{Flow, Phase};
use oxe_proto::transport::UcQp;

/// Packets of a message whose payload is still to be copied.
pub struct Uncopied {
    pub m: usize,
    pub frames: Vec<Vec<u8>>,
}

/// A UC QP with all that belongs to it.
pub struct End {
    pub host: usize,
    pub qpn: u32,
    /// The index of the other end.
    pub peer: usize,
    pub pkey: u16,
    pub pmtu: u32,
    pub max_len: u64,
    pub qp: UcQp,
    pub send: SendRing,
    pub recv: RecvRing,
    pub keys: Keys,
    /// The pages that packets taken, and packets sent, find missing.
    pub taken_pages: Paging,
    pub sent_pages: Paging,
    /// The memory that the peer may write to: a region of the host.
    pub inbox: usize,
    pub permits_write: bool,
    /// A region that the peer may only read.
    pub read_only: usize,
    /// Its requests to its peer.
    pub flow: Flow,
    /// Packets whose payload is still to be copied.
    pub uncopied: Vec<Uncopied>,
    pub phase: Phase,
    /// Requests that the program has still to post; receives that it has posted.
    pub todo: u64,
    pub resets: u32,
    pub pump_at: Option<u64>,
}
