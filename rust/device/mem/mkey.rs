// SPDX-License-Identifier: GPL-2.0

//! The objects that keys name: regions and windows.

use super::error::MemError;
use super::fast_mr::{FastMr, Registration};
use super::mr::{Mr, ProcessMemory, Side};
use super::mw::{Bind, Bindable, Mw};
use super::range::{Cover, Range};
use crate::device::pd::{PdId, PdObject};
use crate::device::Core;
use crate::proto::transport::AccessError;
use crate::rdma::access::Access;
use crate::rdma::mr::{Advice, MwType};
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::{KernelMemory, Word};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The shift of the table index in a key. Both the index and the low byte are random: a peer cannot
/// derive keys from others that it knows, and a stale key matches another region by chance only.
/// The consumer chooses the low byte of a fast-registered region and of a window.
const KEY_SHIFT: u32 = 8;

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

/// The Rust part of an ib_mr or an ib_mw.
pub(crate) struct MkeyObject {
    core: Arc<Core>,
    index: u32,
    mkey: Arc<Mkey>,
    /// The first key.
    pub(crate) key: u32,
}

impl MkeyObject {
    /// Allocates an index, and lets others find what `make` makes for the key. Process context.
    /// ENOMEM; the errors of `make`.
    fn new(
        core: &Arc<Core>,
        owner: &Owner,
        make: impl FnOnce(u32) -> Result<Mkey>,
    ) -> Result<Self> {
        let index = core.mkeys.reserve_random(owner)?;
        let key = (index << KEY_SHIFT) | (crate::sync::random_u32() & 0xff);
        let mkey = make(key)
            .and_then(|mkey| Ok(Arc::new(mkey, GFP_CHARGED)?))
            .inspect_err(|_| core.mkeys.cancel(index))?;
        core.mkeys.publish(index, mkey.clone());
        Ok(MkeyObject {
            core: core.clone(),
            index,
            mkey,
            key,
        })
    }

    /// Registers the memory of a process, which uses it by the addresses in `range`.
    ///
    /// Process context. EINVAL for a range that wraps; ENOMEM.
    pub(crate) fn user_mr(
        core: &Arc<Core>,
        pd: &PdObject,
        memory: ProcessMemory,
        range: Range,
        access: Access,
    ) -> Result<Self> {
        Self::new(core, &pd.owner, |key| {
            Ok(Mkey::Mr(Mr::user(key, pd.id, memory, range, access)?))
        })
    }

    /// Registers all of the kernel's memory, for kernel users. Process context. ENOMEM.
    pub(crate) fn dma_mr(
        core: &Arc<Core>,
        pd: PdId,
        memory: KernelMemory,
        access: Access,
    ) -> Result<Self> {
        Self::new(core, &Owner::KERNEL, |key| {
            Ok(Mkey::Mr(Mr::dma(key, pd, memory, access)))
        })
    }

    /// Allocates a region of at most `count` pages for fast registration. Process context. ENOMEM.
    pub(crate) fn fast_mr(
        core: &Arc<Core>,
        pd: PdId,
        memory: KernelMemory,
        count: usize,
    ) -> Result<Self> {
        Self::new(core, &Owner::KERNEL, |key| {
            Ok(Mkey::FastMr(FastMr::new(key, pd, memory, count)?))
        })
    }

    /// Allocates a window of a process. Process context. ENOMEM.
    pub(crate) fn window(core: &Arc<Core>, pd: &PdObject, kind: MwType) -> Result<Self> {
        let id = pd.id;
        Self::new(core, &pd.owner, |key| Ok(Mkey::Mw(Mw::new(key, id, kind))))
    }

    /// The region that this is. EINVAL if it is another thing.
    pub(crate) fn as_mr(&self) -> Result<&Mr> {
        match &*self.mkey {
            Mkey::Mr(mr) => Ok(mr),
            Mkey::FastMr(_) | Mkey::Mw(_) => Err(EINVAL),
        }
    }

    /// The region for fast registration that this is. EINVAL if it is none.
    pub(crate) fn as_fast_mr(&self) -> Result<&FastMr> {
        match &*self.mkey {
            Mkey::FastMr(mr) => Ok(mr),
            Mkey::Mr(_) | Mkey::Mw(_) => Err(EINVAL),
        }
    }

    /// Ends every use of the region or window: a lookup does not find it any more, holders of a
    /// reference find it closed, and its pages are released on return.
    ///
    /// Process context, sleeps. EBUSY for a region to which windows are bound: it stays.
    pub(crate) fn close(&self) -> Result {
        match &*self.mkey {
            Mkey::Mr(mr) => mr.close()?,
            Mkey::FastMr(mr) => mr.close(),
            Mkey::Mw(mw) => mw.close(),
        }
        self.core.mkeys.remove(self.index);
        Ok(())
    }
}

/// The object of the index of `key`.
#[inline]
pub(super) fn get(core: &Core, key: u32) -> Result<Arc<Mkey>, MemError> {
    core.mkeys.get(key >> KEY_SHIFT).ok_or(MemError::Key)
}

/// `key` with the low byte of `other`.
pub(crate) fn with_low_byte(key: u32, other: u32) -> u32 {
    (key >> KEY_SHIFT << KEY_SHIFT) | (other & 0xff)
}

/// Whether the keys have the same index.
pub(crate) fn same_index(a: u32, b: u32) -> bool {
    a >> KEY_SHIFT == b >> KEY_SHIFT
}

/// Carries out a fast registration for a QP of `pd`. Contexts and errors: see
/// [`FastMr::register`]; Key also if it is no such region.
pub(crate) fn register(core: &Core, pd: PdId, wanted: &Registration) -> Result<(), MemError> {
    match &*get(core, wanted.key)? {
        Mkey::FastMr(mr) => mr.register(pd, wanted),
        Mkey::Mr(_) | Mkey::Mw(_) => Err(MemError::Key),
    }
}

/// Carries out a bind request of QP `qpn`, of `pd`. Contexts and errors: see [`Mw::bind`]; Key also
/// if it is no window.
pub(crate) fn bind(core: &Core, pd: PdId, qpn: u32, bind: &Bind) -> Result<(), MemError> {
    match &*get(core, bind.key)? {
        Mkey::Mw(mw) => mw.bind(pd, qpn, bind, get(core, bind.mr_key).ok()),
        Mkey::Mr(_) | Mkey::FastMr(_) => Err(MemError::Key),
    }
}

/// Invalidates `key` for `accessor` (IBTA 10.6.5). Contexts and errors: see [`FastMr::invalidate`]
/// and [`Mw::invalidate`]; Key also for a region that is not for fast registration.
///
/// To invalidate the latest key of a region again does no harm, and is no error of a kernel user.
pub(crate) fn invalidate(
    core: &Core,
    accessor: Accessor,
    qpn: u32,
    key: u32,
) -> Result<(), MemError> {
    let pd = accessor.pd();
    match (&*get(core, key)?, accessor) {
        (Mkey::FastMr(mr), Accessor::Local(_)) => match mr.invalidate(pd, key) {
            Err(MemError::Revoked) => Ok(()),
            result => result,
        },
        (Mkey::FastMr(mr), Accessor::Peer { .. }) => mr.invalidate(pd, key),
        (Mkey::Mw(mw), _) => mw.invalidate(pd, qpn, key),
        (Mkey::Mr(_), _) => Err(MemError::Key),
    }
}

/// Acts on the advice of a consumer in `pd` on the bytes at `va` of the region with this key.
/// Process context, sleeps. EFAULT if there is no such region, if it does not have the bytes or
/// must not be written to, or if the process does not have them.
pub(crate) fn advise(
    core: &Core,
    pd: PdId,
    advice: Advice,
    key: u32,
    (va, len): (u64, u32),
) -> Result {
    let right = match advice.write {
        true => Access::LOCAL_WRITE,
        false => Access::NONE,
    };
    match &*get(core, key).map_err(|_| EFAULT)? {
        Mkey::Mr(mr) if mr.allows(pd, key, right) => mr.advise(advice, va, len.into()),
        _ => Err(EFAULT),
    }
}

impl Accessor {
    #[inline]
    fn pd(self) -> PdId {
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
