// SPDX-License-Identifier: GPL-2.0

//! The objects that keys name: regions and windows.

use super::error::MemError;
use super::fast_mr::FastMr;
use super::mr::{Mr, Side};
use super::mw::{Bindable, Mw};
use super::range::Cover;
use crate::device::pd::PdId;
use crate::proto::transport::AccessError;
use crate::rdma::access::Access;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::Word;
use kernel::prelude::*;

/// The object of an index, for as long as the index is allocated.
pub(crate) enum Mkey {
    Mr(Mr),
    FastMr(FastMr),
    Mw(Mw<Mkey>),
}

/// The user of a key.
#[derive(Clone, Copy)]
pub(crate) enum Accessor {
    /// A work request of a QP of this PD names its own memory.
    Local(PdId),
    /// The peer of this QP names memory.
    Peer { pd: PdId, qpn: u32 },
}

/// The use that a work request or a peer wants to make of the memory that a key names.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest {
    pub(crate) accessor: Accessor,
    pub(crate) key: u32,
    pub(crate) va: u64,
    pub(crate) len: u32,
    pub(crate) access: Access,
    pub(crate) cover: Cover,
}

/// The result of a lookup: the use of a key was admitted. It fits in two registers.
#[derive(Clone, Copy)]
pub(super) struct Admission {
    /// For [`Mkey::is_open`] and the accesses.
    pub(super) generation: u32,
    /// How many bytes may be used.
    pub(super) len: u32,
}

impl Accessor {
    #[inline]
    pub(super) fn pd(self) -> PdId {
        match self {
            Accessor::Local(pd) | Accessor::Peer { pd, .. } => pd,
        }
    }

    #[inline]
    fn side(self) -> Side {
        match self {
            Accessor::Local(_) => Side::Local,
            Accessor::Peer { .. } => Side::Peer,
        }
    }
}

/// A region that stays as it was registered has no generations. The side that looked it up is in
/// their place.
impl Side {
    #[inline]
    const fn generation(self) -> u32 {
        match self {
            Side::Local => 0,
            Side::Peer => 1,
        }
    }

    #[inline]
    pub(super) const fn of(generation: u32) -> Self {
        match generation {
            0 => Side::Local,
            _ => Side::Peer,
        }
    }
}

impl Bindable for Mkey {
    fn as_mr(&self) -> Option<&Mr> {
        match self {
            Mkey::Mr(mr) => Some(mr),
            Mkey::FastMr(_) | Mkey::Mw(_) => None,
        }
    }
}

impl Mkey {
    /// Whether the use is permitted: this may have its key.
    ///
    /// # Errors
    ///
    /// Key or Bounds: the checks of IBTA 10.6.3.1 for local access, of 9.7.4.1 for remote access.
    #[inline]
    pub(super) fn admit(&self, wanted: &AccessRequest) -> Result<Admission, MemError> {
        let Mkey::Mr(mr) = self else {
            return self.admit_temporary(wanted);
        };
        if !mr.allows(wanted.accessor.pd(), wanted.key, wanted.access) || !mr.is_open() {
            return Err(MemError::Key);
        }
        let range = mr.range();
        let len = range.covered(wanted.va, wanted.len, wanted.cover)?;
        let generation = wanted.accessor.side().generation();
        Ok(Admission { generation, len })
    }

    /// As [`Mkey::admit`], of what is valid for a while.
    #[inline(never)]
    fn admit_temporary(&self, wanted: &AccessRequest) -> Result<Admission, MemError> {
        let (key, access) = (wanted.key, wanted.access);
        let admitted = match (self, wanted.accessor) {
            (Mkey::FastMr(mr), accessor) => mr.admit(accessor.pd(), key, access),
            (Mkey::Mw(mw), Accessor::Peer { pd, qpn }) => mw.admit(pd, qpn, key, access),
            // A window has an R_Key alone (IBTA 10.6.7.1).
            (Mkey::Mr(_), _) | (Mkey::Mw(_), Accessor::Local(_)) => None,
        };
        let (generation, range) = admitted.ok_or(MemError::Key)?;
        let len = range.covered(wanted.va, wanted.len, wanted.cover)?;
        Ok(Admission { generation, len })
    }

    /// Whether an access by a lookup of this generation is still possible. Any context.
    #[inline]
    pub(super) fn is_open(&self, generation: u32) -> bool {
        match self {
            Mkey::Mr(mr) => mr.is_open(),
            Mkey::FastMr(mr) => mr.is_open(generation),
            Mkey::Mw(mw) => mw.is_open(generation),
        }
    }

    /// See [`Mr::for_each_chunk`]; by a lookup of this generation.
    #[inline]
    pub(super) fn for_each_chunk(
        &self,
        generation: u32,
        va: u64,
        len: usize,
        each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        match self {
            Mkey::Mr(mr) => mr.for_each_chunk(Side::of(generation), va, len, each),
            _ => self.for_each_temporary_chunk(generation, va, len, each),
        }
    }

    /// As [`Mkey::for_each_chunk`], of what is valid for a while.
    #[inline(never)]
    fn for_each_temporary_chunk(
        &self,
        generation: u32,
        va: u64,
        len: usize,
        mut each: impl FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        match self {
            Mkey::Mr(_) => Err(MemError::Revoked),
            Mkey::FastMr(mr) => mr.for_each_chunk(generation, va, len, &mut each),
            Mkey::Mw(mw) => mw.for_each_chunk(generation, va, len, &mut each),
        }
    }

    /// See [`Mr::write`]; by a lookup of this generation.
    #[inline]
    pub(super) fn write(
        &self,
        generation: u32,
        va: u64,
        bytes: StridedSrc<'_>,
    ) -> Result<(), MemError> {
        match self {
            Mkey::Mr(mr) => mr.write(Side::of(generation), va, bytes),
            _ => self.write_temporary(generation, va, bytes),
        }
    }

    /// As [`Mkey::write`], to what is valid for a while.
    #[inline(never)]
    pub(super) fn write_temporary(
        &self,
        generation: u32,
        va: u64,
        bytes: StridedSrc<'_>,
    ) -> Result<(), MemError> {
        match self {
            Mkey::Mr(_) => Err(MemError::Revoked),
            Mkey::FastMr(mr) => mr.write(generation, va, bytes),
            Mkey::Mw(mw) => mw.write(generation, va, bytes),
        }
    }

    /// See [`Mr::may_fault`]; by a lookup of this generation. A window may be one of a region where
    /// pages may be missing.
    #[inline]
    pub(super) fn may_fault(&self, generation: u32) -> bool {
        match self {
            Mkey::Mr(mr) => mr.may_fault(Side::of(generation)),
            Mkey::FastMr(_) => false,
            Mkey::Mw(_) => true,
        }
    }

    /// See [`Mr::want`]; by a lookup of this generation.
    #[cold]
    pub(super) fn want(
        &self,
        generation: u32,
        va: u64,
        (len, rest): (u64, u64),
        write: bool,
    ) -> MemError {
        match self {
            Mkey::Mr(mr) => mr.want(va, len, rest, write),
            // The kernel's memory is always present.
            Mkey::FastMr(_) => MemError::Fault,
            Mkey::Mw(mw) => mw
                .with(generation, va, len as usize, |mr, at| {
                    Ok(mr.want(at, len, rest, write))
                })
                .unwrap_or_else(|why: MemError| why),
        }
    }

    /// See [`Mr::with_word`]; by a lookup of this generation.
    pub(super) fn with_word<T>(
        &self,
        generation: u32,
        va: u64,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<T, AccessError> {
        match self {
            Mkey::Mr(mr) => mr.with_word(Side::of(generation), va, access),
            Mkey::FastMr(mr) => mr.with_word(generation, va, access),
            Mkey::Mw(mw) => mw.with_word(generation, va, access),
        }
    }
}
