// SPDX-License-Identifier: GPL-2.0

//! Slots of a send queue: the requests that were fetched, and their SGEs.

use super::send_wqe::AhDest;
use crate::device::mem::sge::Sge;
use crate::device::uabi::wqe::Op;
use crate::proto::transport::{Request, Status};
use kernel::alloc;
use kernel::prelude::*;

/// A request that was fetched and is not complete.
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) wr_id: u64,
    pub(super) op: Op,
    pub(super) sges: u32,
    pub(super) inline: bool,
    pub(super) dest: Option<AhDest>,
}

impl Slot {
    fn empty() -> Self {
        Slot {
            request: Request::with_local_error(Status::General),
            wr_id: 0,
            op: Op::Send,
            sges: 0,
            inline: false,
            dest: None,
        }
    }
}

/// `count` empty slots with `max_sge` SGEs each. ENOMEM.
pub(super) fn storage(
    count: usize,
    max_sge: u32,
    flags: alloc::Flags,
) -> Result<(KVVec<Slot>, KVVec<Sge>)> {
    let mut slots = KVVec::with_capacity(count, flags | __GFP_NOWARN)?;
    for _ in 0..count {
        slots.push(Slot::empty(), flags)?;
    }
    let all = count.checked_mul(max_sge as usize).ok_or(ENOMEM)?;
    let mut sges = KVVec::with_capacity(all, flags | __GFP_NOWARN)?;
    for _ in 0..all {
        sges.push(Sge::default(), flags)?;
    }
    Ok((slots, sges))
}
