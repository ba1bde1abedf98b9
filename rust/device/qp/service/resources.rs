// SPDX-License-Identifier: GPL-2.0

//! Responder resources of an RC QP, and the grants of the READs among them.

use crate::device::mem::grant::Grant;
use crate::proto::transport::Resource;
use crate::sync::memory::GFP_CHARGED;
use kernel::prelude::*;

/// Responder resources, for READs and atomics of the peer.
pub(crate) struct Resources(KVec<Resource>);

impl Resources {
    /// Allocates `count` resources.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut resources = KVec::with_capacity(count, GFP_CHARGED)?;
        resources.extend_with(count, Resource::EMPTY, GFP_CHARGED)?;
        Ok(Resources(resources))
    }
}

impl AsRef<[Resource]> for Resources {
    #[inline]
    fn as_ref(&self) -> &[Resource] {
        &self.0
    }
}

impl AsMut<[Resource]> for Resources {
    #[inline]
    fn as_mut(&mut self) -> &mut [Resource] {
        &mut self.0
    }
}

/// The grants of the READs of the peer, by the transport's index of the responder resource.
pub(crate) type ReadKeys = KVec<Option<Grant>>;

/// Allocates `count` entries without a grant.
pub(crate) fn read_keys(count: usize) -> Result<ReadKeys> {
    let mut keys = KVec::with_capacity(count, GFP_CHARGED)?;
    for _ in 0..count {
        keys.push(None, GFP_CHARGED)?;
    }
    Ok(keys)
}

/// Responder resources and the entries for their grants.
pub(crate) type NewResources = (Resources, ReadKeys);
