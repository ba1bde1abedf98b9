// SPDX-License-Identifier: GPL-2.0

//! A limit on the number of objects of one kind.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// A count with a limit for processes, and a reserve that kernel users alone may use: a process
/// that takes everything must not stop the connection manager.
pub(crate) struct Quota {
    used: Atomic<u32>,
    limit: u32,
    reserve: u32,
}

impl Quota {
    /// A quota of which none is used: `limit` objects, and `reserve` more for kernel users.
    pub(crate) const fn new(limit: u32, reserve: u32) -> Self {
        Quota {
            used: Atomic::new(0),
            limit,
            reserve,
        }
    }

    /// Counts one more, for a process if `user`. Any context.
    ///
    /// ENOMEM at the limit, also when another context gives one back at that moment.
    pub(crate) fn take(&self, user: bool) -> Result {
        let limit = if user {
            self.limit
        } else {
            self.limit.saturating_add(self.reserve)
        };
        if self.used.fetch_add(1, Relaxed) >= limit {
            self.give();
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Counts one less. Any context.
    pub(crate) fn give(&self) {
        self.used.fetch_sub(1, Relaxed);
    }
}
