// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists: the local memory of a work request, keys already resolved.

use super::error::MemError;
use super::grant::{Grant, MkeyCache};
use super::mkey::{AccessRequest, Accessor};
use super::mkeys::Mkeys;
use super::payload::{PayloadError, PayloadRef};
use super::range::Cover;
use crate::device::pd::PdId;
use crate::device::uabi::wqe::RxeSge;
use crate::rdma::access::Access;
use crate::rdma::strided::{StridedDst, StridedSrc};
use crate::sync::memory::Payer;
use core::mem;
use core::ops::Range;
use core::slice::Iter;
use kernel::prelude::*;

/// An element whose key was looked up.
#[derive(Default)]
pub(crate) struct Sge {
    /// That of a receive may be shorter than the element. `None` if the length is 0, or if the key
    /// of an element of a receive does not permit the use: no byte can go there.
    grant: Option<Grant>,
    len: u32,
}

/// The use of the memory of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be sent.
    Source,
    /// For the response to a READ or an atomic.
    Response,
    /// To receive a message. It may be shorter than its buffer, and an element is checked when a
    /// byte goes there: programs post elements that are valid in part or not at all, and ConnectX
    /// takes them.
    Receive,
}

impl Sge {
    /// Becomes `raw`, with its key resolved. `cache` is what the latest lookup found. The key of an
    /// empty element is ignored (IBTA 10.8.3).
    ///
    /// # Errors
    ///
    /// As for [`Grant::lookup`]; for a receive none.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        mkeys: &Mkeys,
        pd: PdId,
        raw: &RxeSge,
        purpose: Purpose,
        cache: &mut MkeyCache,
    ) -> Result<(), MemError> {
        if raw.length == 0 {
            *self = Sge::default();
            return Ok(());
        }
        let (access, cover) = match purpose {
            Purpose::Source => (Access::NONE, Cover::Whole),
            Purpose::Response => (Access::LOCAL_WRITE, Cover::Whole),
            Purpose::Receive => (Access::LOCAL_WRITE, Cover::Prefix),
        };
        let wanted = AccessRequest {
            accessor: Accessor::Local(pd),
            key: raw.lkey,
            va: raw.addr,
            len: raw.length,
            access,
            cover,
        };
        self.len = raw.length;
        self.grant = Grant::from_cache(&wanted, cache);
        if self.grant.is_none() {
            self.grant = match Grant::lookup_anew(mkeys, &wanted, cache) {
                Err(_) if purpose == Purpose::Receive => None,
                found => Some(found?),
            };
        }
        Ok(())
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// How many pairs of elements [`overlap`] compares at most.
const MAX_PAIRS: usize = 64;

/// Whether two lists may have bytes in common: some of the addresses are the same, or the lists are
/// too long to look at them all.
pub(crate) fn overlap(list: &[Sge], other: &[Sge]) -> bool {
    list.len().saturating_mul(other.len()) > MAX_PAIRS
        || grants(list).any(|grant| grants(other).any(|other| grant.overlaps(other)))
}

fn grants(list: &[Sge]) -> impl Iterator<Item = &Grant> {
    list.iter().filter_map(|sge| sge.grant.as_ref())
}

/// The parts of a list that cover `len` bytes from byte `offset` of it on: the element, the offset
/// in it, and the range of the `len` bytes that it holds.
struct Parts<'a> {
    sges: Iter<'a, Sge>,
    skip: u32,
    done: usize,
    len: usize,
}

impl<'a> Parts<'a> {
    #[inline(always)]
    fn new(sges: &'a [Sge], offset: u32, len: usize) -> Self {
        Parts {
            sges: sges.iter(),
            skip: offset,
            done: 0,
            len,
        }
    }

    /// To be asked when there are no more parts. Bounds if the list was too short, or if one of its
    /// elements is invalid.
    #[inline(always)]
    fn end(&self) -> Result<(), MemError> {
        match self.done == self.len {
            true => Ok(()),
            false => Err(MemError::Bounds),
        }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a Grant, u32, Range<usize>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        while self.done != self.len {
            let sge = self.sges.next()?;
            if sge.len <= self.skip {
                self.skip = self.skip.wrapping_sub(sge.len);
                continue;
            }
            let grant = sge.grant.as_ref()?;
            let at = mem::take(&mut self.skip);
            let room = sge.len.wrapping_sub(at);
            let begin = self.done;
            self.done = self.len.min(begin.saturating_add(room as usize));
            return Some((grant, at, begin..self.done));
        }
        None
    }
}

/// Copies `len` bytes from byte `offset` of the list on. Any context.
///
/// # Errors
///
/// Bounds if the list is too short or invalid, Revoked, Fault.
#[inline]
pub(crate) fn gather(
    sges: &[Sge],
    offset: u32,
    len: usize,
    out: &mut StridedDst<'_>,
) -> Result<(), MemError> {
    let mut parts = Parts::new(sges, offset, len);
    for (grant, at, range) in &mut parts {
        grant.for_each_chunk(at, range.len(), |bytes| out.put(bytes))?;
    }
    parts.end()
}

/// Copies bytes to byte `offset` of the list on. Any context.
///
/// # Errors
///
/// As for [`gather`]; a part of the bytes may be written then.
// A call for each page of a message would cost 1 %.
#[inline(always)]
pub(crate) fn scatter(sges: &[Sge], offset: u32, bytes: StridedSrc<'_>) -> Result<(), MemError> {
    let mut parts = Parts::new(sges, offset, bytes.len());
    for (grant, at, range) in &mut parts {
        grant.write(at, bytes.part(range).ok_or(MemError::Bounds)?)?;
    }
    parts.end()
}

/// A reference to `len` bytes from byte `offset` of the list on; its memory is charged to `payer`.
/// Softirq or process context.
///
/// # Errors
///
/// NoMemory if there is no memory for a reference to several places; NotPresent; Bounds if the list
/// is too short.
#[inline]
pub(crate) fn source(
    sges: &[Sge],
    offset: u32,
    len: u32,
    payer: &Payer,
) -> Result<PayloadRef, PayloadError> {
    let mut first = None;
    let mut rest = None;
    let mut parts = Parts::new(sges, offset, len as usize);
    for (grant, at, range) in &mut parts {
        let part = grant.part(at, range.len() as u32)?;
        if range.len() == len as usize {
            first = Some(part);
            break;
        }
        let list = match &mut rest {
            Some(list) => list,
            None => {
                let list = payer.charge(|flags| KVec::with_capacity(sges.len(), flags));
                rest.insert(list.map_err(|_| PayloadError::NoMemory)?)
            }
        };
        list.push_within_capacity(part)
            .map_err(|_| PayloadError::NoMemory)?;
    }
    parts.end()?;
    Ok(match (first, rest) {
        (Some(grant), _) => PayloadRef::Region(grant),
        (None, Some(list)) => PayloadRef::List(list),
        (None, None) => PayloadRef::None,
    })
}

/// The length of a list in bytes. One that holds more than a `u32` tells holds any message.
pub(crate) fn total(sges: &[Sge]) -> u32 {
    sges.iter()
        .fold(0_u32, |sum, sge| sum.saturating_add(sge.len()))
}
