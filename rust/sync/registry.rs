// SPDX-License-Identifier: GPL-2.0

//! Values that are found by a number, and known for as long as they have users.

use super::memory::GFP_CHARGED;
use core::ops::Deref;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{new_mutex, Arc, Mutex};

/// See the module's documentation.
#[pin_data]
pub(crate) struct Registry<T: 'static> {
    #[pin]
    entries: Mutex<RBTree<u64, Entry<T>>>,
}

struct Entry<T> {
    users: usize,
    value: Arc<T>,
}

/// A use of a value. To be dropped in process context.
pub(crate) struct Registered<T: 'static> {
    registry: Arc<Registry<T>>,
    key: u64,
    value: Arc<T>,
}

impl<T> Registry<T> {
    /// An empty registry. Process context. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Registry {
            entries <- new_mutex!(RBTree::new(), "oxe_registry"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// The value of `key`. Without one `make` gives it.
    ///
    /// Process context. ENOMEM; the errors of `make`.
    pub(crate) fn get(
        this: &Arc<Self>,
        key: u64,
        make: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Registered<T>> {
        let known = Self::find(&mut this.entries.lock(), key);
        let value = match known {
            Some(value) => value,
            None => this.insert(key, make()?)?,
        };
        Ok(Registered {
            registry: this.clone(),
            key,
            value,
        })
    }

    fn find(entries: &mut RBTree<u64, Entry<T>>, key: u64) -> Option<Arc<T>> {
        let entry = entries.get_mut(&key)?;
        entry.users = entry.users.saturating_add(1);
        Some(entry.value.clone())
    }

    /// Enters the value, unless another context has entered one: returns that.
    fn insert(&self, key: u64, value: Arc<T>) -> Result<Arc<T>> {
        let entry = Entry {
            users: 1,
            value: value.clone(),
        };
        // Without the lock: a process at the limit of its cgroup may wait long for memory.
        let node = RBTreeNode::new(key, entry, GFP_CHARGED)?;
        let mut entries = self.entries.lock();
        if let Some(found) = Self::find(&mut entries, key) {
            drop(entries);
            drop(node);
            return Ok(found);
        }
        entries.insert(node);
        Ok(value)
    }

    /// The value of `key` has one user less.
    fn put(&self, key: u64) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&key) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        let last = if entry.users == 0 {
            entries.remove_node(&key)
        } else {
            None
        };
        drop(entries);
        drop(last);
    }
}

impl<T> Deref for Registered<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T> Drop for Registered<T> {
    fn drop(&mut self) {
        self.registry.put(self.key);
    }
}
