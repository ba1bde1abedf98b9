// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists: the local memory of a work request, keys already resolved.

use super::mr::Mr;
use super::payload::{PayloadError, PayloadRef, Segment};
use crate::device::pd::PdId;
use crate::device::uabi::wqe::RxeSge;
use crate::device::Core;
use crate::proto::transport::Status;
use crate::rdma::access::Access;
use crate::rdma::strided::{StridedDst, StridedSrc};
use kernel::prelude::*;
use kernel::sync::Arc;

/// An element whose key was found and whose range and rights were checked. The region may be
/// closed later; then its bytes are not there any more.
#[derive(Default)]
pub(crate) struct Sge {
    mr: Option<Arc<Mr>>,
    addr: u64,
    len: u32,
}

impl Sge {
    /// Resolves `raw`, to be written to if `write`; `mr_cache` is the MR that was found last. The
    /// key of an empty element means nothing (IBTA 10.8.3).
    #[inline]
    pub(crate) fn resolve(
        core: &Core,
        pd: PdId,
        raw: &RxeSge,
        write: bool,
        mr_cache: &mut Option<Arc<Mr>>,
    ) -> Result<Self, Status> {
        if raw.length == 0 {
            return Ok(Sge::default());
        }
        let access = if write {
            Access::LOCAL_WRITE
        } else {
            Access::NONE
        };
        let len = u64::from(raw.length);
        let mr = Mr::find_cached(core, pd, raw.lkey, raw.addr, len, access, mr_cache);
        Ok(Sge {
            mr: Some(mr.ok_or(Status::LocProt)?),
            addr: raw.addr,
            len: raw.length,
        })
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// Calls `each` with the parts of `sges` that cover `len` bytes from byte `offset` of the list: the
/// element's region, the address there, and the range of the `len` bytes that go there.
#[inline]
fn for_parts(
    sges: &[Sge],
    offset: u32,
    len: usize,
    mut each: impl FnMut(&Arc<Mr>, u64, core::ops::Range<usize>) -> Option<()>,
) -> Option<()> {
    let mut skip = offset;
    let mut done = 0_usize;
    for sge in sges {
        if done == len {
            break;
        }
        let Some(room) = sge.len.checked_sub(skip).filter(|room| *room > 0) else {
            skip = skip.wrapping_sub(sge.len);
            continue;
        };
        let end = len.min(done.saturating_add(room as usize));
        let addr = sge.addr.wrapping_add(u64::from(skip));
        each(sge.mr.as_ref()?, addr, done..end)?;
        done = end;
        skip = 0;
    }
    (done == len).then_some(())
}

/// Copies `len` bytes from byte `offset` of the list on. `None` if the list is too short or memory
/// is gone.
///
/// Any context.
#[inline]
pub(crate) fn gather(
    sges: &[Sge],
    offset: u32,
    len: usize,
    out: &mut StridedDst<'_>,
) -> Option<()> {
    for_parts(sges, offset, len, |mr, addr, range| {
        mr.for_each_chunk(addr, range.len(), |bytes| out.put(bytes))
    })
}

/// Copies bytes to byte `offset` of the list on. `None` as for [`gather`]; then a part may be
/// written.
///
/// Any context.
#[inline]
pub(crate) fn scatter(sges: &[Sge], offset: u32, bytes: StridedSrc<'_>) -> Option<()> {
    for_parts(sges, offset, bytes.len(), |mr, addr, range| {
        mr.write(addr, bytes.part(range)?)
    })
}

/// Where `len` bytes from byte `offset` of the list on are.
///
/// Any context. NoMemory if a reference to several places found none; Gone if the list is too
/// short.
#[inline]
pub(crate) fn source(sges: &[Sge], offset: u32, len: u32) -> Result<PayloadRef, PayloadError> {
    let mut first = None;
    let mut rest = None;
    let mut memory = true;
    for_parts(sges, offset, len as usize, |mr, va, range| {
        let segment = Segment {
            mr: mr.clone(),
            va,
            len: range.len() as u32,
        };
        if first.is_none() && range.len() == len as usize {
            first = Some(segment);
            return Some(());
        }
        let list = rest.get_or_insert_with(KVec::new);
        memory = list.push(segment, GFP_ATOMIC).is_ok();
        memory.then_some(())
    })
    .ok_or(if memory {
        PayloadError::Gone
    } else {
        PayloadError::NoMemory
    })?;
    Ok(match (first, rest) {
        (Some(segment), _) => PayloadRef::Region(segment),
        (None, Some(list)) => PayloadRef::List(list),
        (None, None) => PayloadRef::None,
    })
}

/// The bytes of a list, or `None` when they are more than a message can have.
pub(crate) fn total(sges: &[Sge]) -> Option<u32> {
    sges.iter()
        .try_fold(0_u32, |sum, sge| sum.checked_add(sge.len))
}
