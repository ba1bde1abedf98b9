// SPDX-License-Identifier: GPL-2.0

//! Regions with on-demand paging (IB_ACCESS_ON_DEMAND): an access that finds a page missing asks
//! for it, and fails for now. Work in process context faults the page in.

use crate::rdma::odp::OdpMemory;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::revocable::Revocable;
use crate::sync::work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{self, new_work, Work, WorkItem};

/// How many ranges of one region wait for work at most. An access whose range is not among them
/// asks again when it is repeated.
const MAX_WANTED: usize = 8;

/// How many bytes are faulted in at most because later accesses will go to them.
pub(super) const MAX_AHEAD: u64 = 1 << 20;

/// A range that is to be made present.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wanted {
    offset: u64,
    len: u64,
    /// How many bytes from `offset` on will be accessed after these.
    ahead: u64,
    write: bool,
}

/// The memory of a region with on-demand paging.
#[pin_data]
pub(super) struct OdpMr {
    pub(super) memory: Revocable<OdpMemory>,
    #[pin]
    wanted: SpinLockBh<[Option<Wanted>; MAX_WANTED]>,
    #[pin]
    fault_work: Work<OdpMr>,
}

workqueue::impl_has_work! { impl HasWork<OdpMr> for OdpMr { self.fault_work } }

impl WorkItem for OdpMr {
    type Pointer = Arc<Self>;

    /// Process context: faults in all ranges that are wanted.
    fn run(this: Arc<Self>) {
        while let Some((index, wanted)) = this.next_wanted() {
            let Some(memory) = this.memory.try_access() else {
                return;
            };
            memory.fault(wanted.offset, wanted.len, wanted.ahead, wanted.write);
            drop(memory);
            this.done(index);
        }
    }
}

impl OdpMr {
    /// ENOMEM.
    pub(super) fn new(memory: OdpMemory) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(OdpMr {
                memory: Revocable::new(memory),
                wanted <- new_spinlock_bh!([None; MAX_WANTED], "oxe_odp"),
                fault_work <- new_work!("OdpMr::fault_work"),
            }),
            GFP_CHARGED,
        )
    }

    /// A range that is wanted, and its place. It stays there until it is done: an access that is
    /// repeated meanwhile asks for the same range, and is not to have it faulted in twice. One whose
    /// pages fail is told so once, and the second failure would be taken for that of a later access.
    fn next_wanted(&self) -> Option<(usize, Wanted)> {
        let wanted = self.wanted.lock();
        let mut all = wanted.iter().enumerate();
        all.find_map(|(index, wanted)| Some((index, (*wanted)?)))
    }

    fn done(&self, index: usize) {
        if let Some(wanted) = self.wanted.lock().get_mut(index) {
            *wanted = None;
        }
    }

    /// An access to `len` bytes from `offset` on, for writing if `write`, has found a page missing:
    /// asks for the pages. Accesses will go to the `ahead` bytes from there on.
    ///
    /// Softirq or process context.
    #[cold]
    pub(super) fn want(this: &Arc<Self>, offset: u64, len: u64, ahead: u64, write: bool) {
        let new = Wanted {
            offset,
            len,
            ahead,
            write,
        };
        let mut wanted = this.wanted.lock();
        if !wanted.contains(&Some(new)) {
            if let Some(free) = wanted.iter_mut().find(|wanted| wanted.is_none()) {
                *free = Some(new);
            }
        }
        drop(wanted);
        work::queue_process(this);
    }
}
