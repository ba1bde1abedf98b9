// SPDX-License-Identifier: GPL-2.0

//! The limits that a device reports. A program that makes as many objects as one user may have, or
//! as long queues, must get them, so they are no more than a machine of some gigabytes has room
//! for. Root may have four times as many objects (see [`USERS`]).

use super::uabi::wqe::RxeSge;
use crate::rdma::attr::DriverId;
use crate::sync::quota::{Quota, KINDS, USERS};
use core::mem::size_of;

/// rdma_rxe's number, as librxe is the provider of both.
pub(crate) const DRIVER_ID: DriverId = DriverId::RXE;
/// A locally administered OUI (the second bit of its first byte is set), as no manufacturer has it:
/// 02, "ox". Programs that look for rdma_rxe by its 0xffffff do not take oxe for it.
pub(crate) const VENDOR_ID: u32 = 0x02_6f78;
/// No part that perftest knows, which does not look at the vendor.
pub(crate) const PART_ID: u32 = 1;
/// rdma_rxe's, for its link type.
pub(crate) const RXE_VENDOR_ID: u32 = 0xff_ffff;

/// The kinds of objects that a user has a share of.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Qp,
    Mkey,
    Ah,
    Cq,
    Srq,
    Pd,
    /// A multicast group that the user is in.
    Group,
    /// A counter of `rdma statistic qp`.
    Counter,
    /// A packet that is kept.
    Kept,
}
const _: () = assert!((Kind::Kept as usize) < KINDS);

/// The quota for a kind of object with the reported limit `limit`.
pub(crate) const fn quota(kind: Kind, limit: u32) -> Quota {
    Quota::new(kind as usize, limit, KERNEL_RESERVE)
}

/// How many objects of each kind there may be beyond those of [`USERS`]: a reserve for kernel users
/// (the connection manager, the MAD layer) when processes have taken all others.
pub(crate) const KERNEL_RESERVE: u32 = 16_384;
/// QPs. QP numbers 0 and 1 are the management QPs; the others begin at 17. A process maps two rings
/// for each, one for each CQ and SRQ, and may have 65,530 mappings (vm.max_map_count).
pub(crate) const MAX_QP: u32 = 16_384;
pub(crate) const MIN_QPN: u32 = 17;
pub(crate) const MAX_QPN: u32 = 0xff_fffe;
/// Counters of `rdma statistic qp`: each has a QP. Their numbers are small, as people type them.
pub(crate) const MAX_COUNTER_NUMBER: u32 = MAX_QP * USERS + KERNEL_RESERVE;
/// The most work requests of a queue.
pub(crate) const MAX_QP_WR: u32 = 32_768;
/// The most work requests of a shared receive queue.
pub(crate) const MAX_SRQ_WR: u32 = 32_767;
/// The most SGEs of a work request.
pub(crate) const MAX_SGE: u32 = 32;
/// Bytes of inline data: as many as the SGEs that they replace take.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * size_of::<RxeSge>() as u32;
pub(crate) const MAX_CQ: u32 = 32_768;
/// The most completions of a queue.
pub(crate) const MAX_CQE: u32 = 65_535;
pub(crate) const MAX_SRQ: u32 = 16_384;
pub(crate) const MAX_PD: u32 = 65_536;
/// Memory regions and windows together.
pub(crate) const MAX_MR: u32 = 262_144;
pub(crate) const MAX_MW: u32 = MAX_MR;
/// A key has 24 bits for the index.
pub(crate) const MAX_KEY_INDEX: u32 = (1 << 24) - 2;
const _: () = assert!(MAX_MR * USERS + KERNEL_RESERVE < MAX_KEY_INDEX);
/// Pages of a region for fast registration: 16 MiB of the smallest, as much as iSER can use.
pub(crate) const MAX_FAST_REG_PAGES: u32 = 4096;
pub(crate) const MAX_AH: u32 = 65_536;
pub(crate) const MAX_AH_NUMBER: u32 = MAX_AH * USERS + KERNEL_RESERVE;
/// Multicast groups, and queue pairs of one group: each packet looks for its group, and goes to all
/// of them.
pub(crate) const MAX_MCAST_GRP: u32 = 256;
pub(crate) const MAX_MCAST_QP_ATTACH: u32 = 64;
/// Packets that are kept until one before them comes: 16 MiB for a user, with the longest path MTU.
pub(crate) const MAX_KEPT: u32 = 4096;
/// Outstanding READs and atomics of one QP, in each direction.
pub(crate) const MAX_RD_ATOMIC: u32 = 128;
/// Entries of a port's GID table: one for each address of the netdev, for which ib_core makes three
/// files in sysfs.
pub(crate) const MIN_GIDS: u16 = 16;
pub(crate) const MAX_GIDS: u16 = 1024;
/// How many requests of a send queue the driver takes into slots at a time; the others wait in the
/// ring.
pub(crate) const MAX_ACTIVE: u32 = 64;
/// Exponent of 4.096 us: the longest time that a response may take, for the CM's timeouts.
pub(crate) const LOCAL_CA_ACK_DELAY: u8 = 15;
