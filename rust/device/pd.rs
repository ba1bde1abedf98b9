// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a number that objects carry, and that must be the same where they meet.

use super::Core;
use crate::sync::memory::GFP_CHARGED;
use core::mem::MaybeUninit;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// About what ib_core allocates for a protection domain of a process, which it does not charge to
/// it.
const UNCHARGED: usize = 256;

/// The identity of a protection domain; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

/// The Rust part of an ib_pd.
pub(crate) struct PdObject {
    pub(crate) id: PdId,
    core: Arc<Core>,
    /// Charged to the process, so that its cgroup bounds its domains, for which the driver itself
    /// needs no memory.
    _charge: KBox<MaybeUninit<[u8; UNCHARGED]>>,
}

impl PdObject {
    /// A new one, of a process if `user`. Process context. ENOMEM, also when there are too many.
    pub(crate) fn new(core: &Arc<Core>, user: bool) -> Result<Self> {
        let charge = KBox::new_uninit(GFP_CHARGED)?;
        core.pds.take(user)?;
        Ok(PdObject {
            id: PdId(core.next_pd.fetch_add(1, Relaxed)),
            core: core.clone(),
            _charge: charge,
        })
    }
}

impl Drop for PdObject {
    fn drop(&mut self) {
        self.core.pds.give();
    }
}
