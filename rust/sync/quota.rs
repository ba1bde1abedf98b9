// SPDX-License-Identifier: GPL-2.0

//! A limit on the number of objects of one kind.

use super::memory::GFP_CHARGED;
use super::user;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// How many kinds of objects there may be.
pub(crate) const KINDS: usize = 9;

/// How many users may have all that one may have. Root may have as much as these together.
pub(crate) const USERS: u32 = 4;

/// The number of objects of one user, by kind.
pub(crate) struct Account {
    used: [Atomic<u32>; KINDS],
    is_root: bool,
}

impl Account {
    /// That of user `id`, without anything. Process context. ENOMEM.
    pub(crate) fn new(id: u64) -> Result<Arc<Self>> {
        let account = Account {
            used: [const { Atomic::new(0) }; KINDS],
            is_root: user::is_root(id),
        };
        Ok(Arc::new(account, GFP_CHARGED)?)
    }
}

/// The user that an object is accounted to; kernel users have no account.
#[derive(Clone)]
pub(crate) struct Owner(Option<Arc<Account>>);

impl Owner {
    /// A kernel user.
    pub(crate) const KERNEL: Self = Owner(None);

    /// A process, with the account of its user.
    pub(crate) fn process(account: Arc<Account>) -> Self {
        Owner(Some(account))
    }

    /// Whether that is a process.
    pub(crate) fn is_process(&self) -> bool {
        self.0.is_some()
    }

    /// Counts one more object of a kind. A user may have `share` of them. Any context.
    ///
    /// ENOMEM if the user has its share, also when another context gives one back at that moment.
    pub(crate) fn take(&self, kind: usize, share: u32) -> Result {
        let Some(account) = &self.0 else {
            return Ok(());
        };
        let used = account.used.get(kind).ok_or(EINVAL)?;
        if used.fetch_add(1, Relaxed) >= self.most(share) {
            used.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Counts one less. Any context.
    pub(crate) fn give(&self, kind: usize) {
        if let Some(used) = self.0.as_ref().and_then(|account| account.used.get(kind)) {
            used.fetch_sub(1, Relaxed);
        }
    }

    /// Of things of which a user may have `share`, how many this one may have: root and kernel
    /// users all.
    pub(crate) fn most(&self, share: u32) -> u32 {
        match &self.0 {
            Some(account) if !account.is_root => share,
            _ => share.saturating_mul(USERS),
        }
    }

    /// Whether the other one is the same user.
    pub(crate) fn is(&self, other: &Owner) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

/// A count with a limit for processes, and a reserve that kernel users alone may use: a process
/// that takes everything must not stop the connection manager. A user has a share of the limit.
pub(crate) struct Quota {
    used: Atomic<u32>,
    kind: usize,
    share: u32,
    reserve: u32,
}

impl Quota {
    /// A quota of which none is used: `share` objects of this kind for each of [`USERS`], and
    /// `reserve` more for kernel users.
    pub(crate) const fn new(kind: usize, share: u32, reserve: u32) -> Self {
        Quota {
            used: Atomic::new(0),
            kind,
            share,
            reserve,
        }
    }

    /// Counts one more. Any context.
    ///
    /// ENOMEM at the limit, and if the user has its share; also when another context gives one back
    /// at that moment.
    pub(crate) fn take(&self, owner: &Owner) -> Result {
        let all = self.share.saturating_mul(USERS);
        let limit = if owner.is_process() {
            all
        } else {
            all.saturating_add(self.reserve)
        };
        owner.take(self.kind, self.share)?;
        if self.used.fetch_add(1, Relaxed) >= limit {
            self.give(owner);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Counts one less. Any context.
    pub(crate) fn give(&self, owner: &Owner) {
        self.used.fetch_sub(1, Relaxed);
        owner.give(self.kind);
    }
}

/// An object that is counted until this is dropped. Any context.
pub(crate) struct Counted {
    quota: Arc<Quota>,
    owner: Owner,
}

impl Counted {
    /// Counts one more. Any context; errors as for [`Quota::take`].
    pub(crate) fn new(quota: &Arc<Quota>, owner: &Owner) -> Result<Self> {
        quota.take(owner)?;
        Ok(Counted {
            quota: quota.clone(),
            owner: owner.clone(),
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.quota.give(&self.owner);
    }
}
