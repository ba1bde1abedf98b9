// SPDX-License-Identifier: GPL-2.0

//! The page cache from which packets have their memory, one for each CPU.

use crate::ffi;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Release};

/// Whether there is a [`PageCache`].
static PAGE_CACHE: Atomic<u32> = Atomic::new(0);

/// Frees the page cache of packets when dropped. The module has the only one, and no packets are
/// sent any more when that is dropped.
pub(crate) struct PageCache(());

impl PageCache {
    /// EBUSY if there is one.
    pub(crate) fn new() -> Result<Self> {
        match PAGE_CACHE.xchg(1, Full) {
            0 => Ok(PageCache(())),
            _ => Err(EBUSY),
        }
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        // SAFETY: this is the only one, the module's, and packets are sent no more.
        unsafe { ffi::oxe_page_cache_free() };
        PAGE_CACHE.store(0, Release);
    }
}
