// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a number that objects carry. Objects that are used together must have the
//! same one.

use super::limits::{self, Kind};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::{Counted, Owner, Quota};
use core::mem::MaybeUninit;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// About as many bytes as ib_core allocates for a protection domain of a process. ib_core does not
/// charge them to the process.
const UNCHARGED: usize = 256;

/// The identity of a protection domain; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

/// The protection domains of a device.
pub(crate) struct Pds {
    quota: Arc<Quota>,
    /// The number of the next one.
    next: Atomic<u64>,
}

/// The Rust part of an ib_pd.
pub(crate) struct PdObject {
    pub(crate) id: PdId,
    /// The owner of what is made in the domain.
    pub(crate) owner: Owner,
    _counted: Counted,
    /// Memory charged to the process, so that its cgroup bounds the number of its domains. The
    /// driver itself needs no memory for a domain.
    _charge: KBox<MaybeUninit<[u8; UNCHARGED]>>,
}

impl Pds {
    /// No protection domains. Process context. ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        Ok(Pds {
            quota: Arc::new(limits::quota(Kind::Pd, limits::MAX_PD), GFP_KERNEL)?,
            next: Atomic::new(1),
        })
    }

    /// A new protection domain. Process context. ENOMEM, also when there are too many.
    pub(crate) fn alloc(&self, owner: Owner) -> Result<PdObject> {
        let charge = KBox::new_uninit(GFP_CHARGED)?;
        let counted = Counted::new(&self.quota, &owner)?;
        Ok(PdObject {
            owner,
            id: PdId(self.next.fetch_add(1, Relaxed)),
            _counted: counted,
            _charge: charge,
        })
    }
}
