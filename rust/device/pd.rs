// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a number that objects carry, and that must be the same where they meet.

use super::Core;
use kernel::sync::atomic::Relaxed;

/// The identity of a protection domain; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

impl PdId {
    /// A new one. Any context.
    pub(crate) fn new(core: &Core) -> Self {
        PdId(core.next_pd.fetch_add(1, Relaxed))
    }
}
