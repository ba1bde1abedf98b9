// SPDX-License-Identifier: GPL-2.0

//! Regions with on-demand paging (IB_ACCESS_ON_DEMAND): an access that finds a page missing asks
//! for it, and fails for now. Work in process context faults the page in.

use super::error::MemError;
use crate::rdma::fault::{Faulting, Held, Turn};
use crate::rdma::odp::OdpMemory;
use crate::rdma::trace::{self, Event};
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::revocable::Revocable;
use crate::sync::timer;
use kernel::prelude::*;
use kernel::sync::Arc;

/// How many ranges of one region are remembered at most. An access whose range is not among them
/// asks again when it is repeated.
const MAX_WANTED: usize = 8;

/// How many bytes are faulted in at most because later accesses will go to them.
pub(super) const MAX_AHEAD: u64 = 1 << 20;

/// How long a failure is remembered for the access that asked, in nanoseconds: longer than the
/// longest wait after an RNR NAK.
const FAILURE_TTL_NS: u64 = 2_000_000_000;

/// A range that an access has asked for.
#[derive(Clone, Copy)]
struct Wanted {
    offset: u64,
    len: u64,
    /// How many bytes from `offset` on will be accessed after these.
    ahead: u64,
    write: bool,
    /// It was faulted in in vain: the byte that is not there, and when that was found out.
    failed: Option<(u64, u64)>,
}

/// The memory of a region with on-demand paging.
#[pin_data]
pub(super) struct OdpMr {
    /// Revoked without waiting for faults, which may take as long as the process likes
    /// (userfaultfd): a context that faults pages in has a reference of its own.
    pub(super) memory: Revocable<Arc<OdpMemory>>,
    #[pin]
    wanted: SpinLockBh<[Option<Wanted>; MAX_WANTED]>,
    /// Its place among the regions that wait for pages.
    turn: Revocable<Arc<Turn>>,
}

impl Faulting for OdpMr {
    /// Process context: faults in one range that is wanted.
    fn fault(&self, held: &Held<'_>) -> bool {
        let Some((index, wanted)) = self.next_wanted() else {
            return false;
        };
        let Some(memory) = self.hold() else {
            return false;
        };
        let Wanted {
            offset, len, ahead, ..
        } = wanted;
        let done = memory.fault(held, (offset, len, ahead), wanted.write);
        if trace::is_on(Event::PageFault) {
            let address = memory.address(offset);
            trace::page_fault(address, len.max(ahead), wanted.write, done.is_ok());
        }
        drop(memory);
        // The access of a packet comes again, and is told. Advice is not given again.
        let failed = done.err().filter(|_| len != 0);
        let failed = failed.map(|at| (at, timer::now_ns()));
        if let Some(place) = self.wanted.lock().get_mut(index) {
            *place = failed.map(|_| Wanted { failed, ..wanted });
        }
        self.next_wanted().is_some()
    }

    fn give_up(&self) {
        *self.wanted.lock() = [None; MAX_WANTED];
    }
}

/// A free place, or that of the oldest failure: the access that it is kept for may never come
/// again, as its peer has given up, and must not be in the way of others. `None` if all are still
/// asked for.
fn place_for_another(wanted: &mut [Option<Wanted>; MAX_WANTED]) -> Option<&mut Option<Wanted>> {
    let age = |wanted: &Wanted| wanted.failed.map_or(u64::MAX, |(_, time)| time);
    wanted
        .iter_mut()
        .filter(|wanted| wanted.is_none_or(|wanted| wanted.failed.is_some()))
        .min_by_key(|wanted| wanted.as_ref().map_or(0, age))
}

impl OdpMr {
    /// A region of the calling process. Process context. ENOMEM.
    pub(super) fn new(memory: OdpMemory) -> Result<Arc<Self>> {
        let memory = Arc::new(memory, GFP_CHARGED)?;
        let turn = Turn::new()?;
        Arc::pin_init(
            pin_init!(OdpMr {
                memory: Revocable::new(memory),
                wanted <- new_spinlock_bh!([None; MAX_WANTED], "oxe_odp"),
                turn: Revocable::new(turn),
            }),
            GFP_CHARGED,
        )
    }

    /// Ends all accesses and faults; the pages are given up on return, or when a fault in progress
    /// has ended. Process context, sleeps.
    pub(super) fn close(&self) {
        self.memory.revoke();
        if let Some(turn) = self.turn.try_access() {
            turn.close();
        }
        self.turn.revoke();
    }

    /// The memory, unless the region is closed; to be dropped in process context. Any context.
    pub(super) fn hold(&self) -> Option<Arc<OdpMemory>> {
        Some((*self.memory.try_access()?).clone())
    }

    /// A range that is wanted, and its place. It stays there until it is done: an access that is
    /// repeated meanwhile asks for the same range.
    fn next_wanted(&self) -> Option<(usize, Wanted)> {
        let wanted = self.wanted.lock();
        let mut all = wanted.iter().enumerate();
        all.find_map(|(index, wanted)| {
            let wanted = (*wanted).filter(|wanted| wanted.failed.is_none())?;
            Some((index, wanted))
        })
    }

    /// An access to `len` bytes from `offset` on, for writing if `write`, has found a page missing:
    /// asks for the pages. Accesses will go to the `ahead` bytes from there on.
    ///
    /// Returns the reason of the failure: Fault, once, if the pages were asked for before and the
    /// process does not have them; else NotPresent. Softirq or process context.
    #[cold]
    pub(super) fn want(
        this: &Arc<Self>,
        offset: u64,
        len: u64,
        ahead: u64,
        write: bool,
    ) -> MemError {
        let now = timer::now_ns();
        let end = offset.saturating_add(len);
        let mut wanted = this.wanted.lock();
        let mut asked = false;
        for place in wanted.iter_mut() {
            let Some(old) = *place else { continue };
            let Some((at, time)) = old.failed else {
                asked |= (old.offset, old.len, old.write) == (offset, len, write);
                continue;
            };
            let recent = now.saturating_sub(time) < FAILURE_TTL_NS;
            let ours = (offset..end).contains(&at) && (write || !old.write);
            if ours || !recent {
                *place = None;
            }
            if ours && recent {
                return MemError::Fault;
            }
        }
        if !asked {
            if let Some(place) = place_for_another(&mut wanted) {
                *place = Some(Wanted {
                    offset,
                    len,
                    ahead,
                    write,
                    failed: None,
                });
            }
        }
        drop(wanted);
        if let Some(turn) = this.turn.try_access() {
            Turn::request(&turn, this.clone());
        }
        MemError::NotPresent
    }
}
