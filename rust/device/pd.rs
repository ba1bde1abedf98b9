// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a number that objects carry. Objects that are used together must have the
//! same one.

use super::Core;
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use core::mem::MaybeUninit;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// About as many bytes as ib_core allocates for a protection domain of a process. ib_core does not
/// charge them to the process.
const UNCHARGED: usize = 256;

/// The identity of a protection domain; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

/// The Rust part of an ib_pd.
pub(crate) struct PdObject {
    pub(crate) id: PdId,
    /// The owner of what is made in the domain.
    pub(crate) owner: Owner,
    core: Arc<Core>,
    /// Memory charged to the process, so that its cgroup bounds the number of its domains. The
    /// driver itself needs no memory for a domain.
    _charge: KBox<MaybeUninit<[u8; UNCHARGED]>>,
}

impl PdObject {
    /// A new protection domain. Process context. ENOMEM, also when there are too many.
    pub(crate) fn new(core: &Arc<Core>, owner: Owner) -> Result<Self> {
        let charge = KBox::new_uninit(GFP_CHARGED)?;
        core.pds.take(&owner)?;
        Ok(PdObject {
            owner,
            id: PdId(core.next_pd.fetch_add(1, Relaxed)),
            core: core.clone(),
            _charge: charge,
        })
    }
}

impl Drop for PdObject {
    fn drop(&mut self) {
        self.core.pds.give(&self.owner);
    }
}
