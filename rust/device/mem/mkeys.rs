// SPDX-License-Identifier: GPL-2.0

//! The keys of a device: the table of regions and windows, and the requests that name a key.

use super::error::MemError;
use super::fast_mr::{FastMr, Registration};
use super::mkey::{Accessor, Mkey};
use super::mr::{Mr, ProcessMemory};
use super::mw::{Bind, Mw};
use super::range::Range;
use crate::device::limits::{self, Kind};
use crate::device::pd::{PdId, PdObject};
use crate::rdma::access::Access;
use crate::rdma::details::Details;
use crate::rdma::mr::{Advice, MwType};
use crate::rdma::umem::KernelMemory;
use crate::sync::memory::GFP_CHARGED;
use crate::sync::quota::Owner;
use crate::sync::table::Table;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The shift of the table index in a key. Both the index and the low byte are random: a peer cannot
/// derive keys from others that it knows, and a stale key matches another region by chance only.
/// The consumer chooses the low byte of a fast-registered region and of a window.
const KEY_SHIFT: u32 = 8;

/// The regions and windows of a device, by the index in their keys. To be dropped in process
/// context.
#[pin_data]
pub(crate) struct Mkeys {
    #[pin]
    table: Table<Mkey>,
}

/// The Rust part of an ib_mr or an ib_mw.
pub(crate) struct MkeyObject {
    mkeys: Arc<Mkeys>,
    index: u32,
    mkey: Arc<Mkey>,
    /// The first key.
    pub(crate) key: u32,
}

impl MkeyObject {
    /// Allocates an index, and lets others find what `make` makes for the key. Process context.
    /// ENOMEM; the errors of `make`.
    fn new(
        mkeys: &Arc<Mkeys>,
        owner: &Owner,
        make: impl FnOnce(u32) -> Result<Mkey>,
    ) -> Result<Self> {
        let index = mkeys.table.reserve_random(owner)?;
        let key = (index << KEY_SHIFT) | (crate::sync::random_u32() & 0xff);
        let mkey = make(key)
            .and_then(|mkey| Ok(Arc::new(mkey, GFP_CHARGED)?))
            .inspect_err(|_| mkeys.table.cancel(index))?;
        mkeys.table.publish(index, mkey.clone());
        Ok(MkeyObject {
            mkeys: mkeys.clone(),
            index,
            mkey,
            key,
        })
    }

    /// Registers the memory of a process, which uses it by the addresses in `range`.
    ///
    /// Process context. EINVAL for a range that wraps; ENOMEM.
    pub(crate) fn user_mr(
        mkeys: &Arc<Mkeys>,
        pd: &PdObject,
        memory: ProcessMemory,
        range: Range,
        access: Access,
    ) -> Result<Self> {
        Self::new(mkeys, &pd.owner, |key| {
            Ok(Mkey::Mr(Mr::user(key, pd.id, memory, range, access)?))
        })
    }

    /// Registers all of the kernel's memory, for kernel users. Process context. ENOMEM.
    pub(crate) fn dma_mr(
        mkeys: &Arc<Mkeys>,
        pd: PdId,
        memory: KernelMemory,
        access: Access,
    ) -> Result<Self> {
        Self::new(mkeys, &Owner::KERNEL, |key| {
            Ok(Mkey::Mr(Mr::dma(key, pd, memory, access)))
        })
    }

    /// Allocates a region of at most `count` pages for fast registration. Process context. ENOMEM.
    pub(crate) fn fast_mr(
        mkeys: &Arc<Mkeys>,
        pd: PdId,
        memory: KernelMemory,
        count: usize,
    ) -> Result<Self> {
        Self::new(mkeys, &Owner::KERNEL, |key| {
            Ok(Mkey::FastMr(FastMr::new(key, pd, memory, count)?))
        })
    }

    /// Allocates a window of a process. Process context. ENOMEM.
    pub(crate) fn window(mkeys: &Arc<Mkeys>, pd: &PdObject, kind: MwType) -> Result<Self> {
        let id = pd.id;
        Self::new(mkeys, &pd.owner, |key| Ok(Mkey::Mw(Mw::new(key, id, kind))))
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

    /// Writes details of a region: see debugging.rst, which describes each. Any context.
    pub(crate) fn details(&self, out: &mut Details) {
        match &*self.mkey {
            Mkey::Mr(mr) => mr.details(out),
            Mkey::FastMr(_) => out.text(c"memory", c"fast registration"),
            // ib_core asks about regions alone.
            Mkey::Mw(_) => {}
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
        self.mkeys.table.remove(self.index);
        Ok(())
    }
}

/// `key` with the low byte of `other`.
pub(crate) fn with_low_byte(key: u32, other: u32) -> u32 {
    (key >> KEY_SHIFT << KEY_SHIFT) | (other & 0xff)
}

/// Whether the keys have the same index.
pub(crate) fn same_index(a: u32, b: u32) -> bool {
    a >> KEY_SHIFT == b >> KEY_SHIFT
}

impl Mkeys {
    /// No regions and windows. Process context. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let quota = limits::quota(Kind::Mkey, limits::MAX_MR);
        Arc::pin_init(
            pin_init!(Mkeys { table <- Table::new(1..=limits::MAX_KEY_INDEX, quota) }),
            GFP_KERNEL,
        )
    }

    /// The object of the index of `key`.
    #[inline]
    pub(super) fn get(&self, key: u32) -> Result<Arc<Mkey>, MemError> {
        self.table.get(key >> KEY_SHIFT).ok_or(MemError::Key)
    }

    /// Carries out a fast registration for a QP of `pd`. Contexts and errors: see
    /// [`FastMr::register`]; Key also if it is no such region.
    pub(crate) fn register(&self, pd: PdId, wanted: &Registration) -> Result<(), MemError> {
        match &*self.get(wanted.key)? {
            Mkey::FastMr(mr) => mr.register(pd, wanted),
            Mkey::Mr(_) | Mkey::Mw(_) => Err(MemError::Key),
        }
    }

    /// Carries out a bind request of QP `qpn`, of `pd`. Contexts and errors: see [`Mw::bind`]; Key
    /// also if it is no window.
    pub(crate) fn bind(&self, pd: PdId, qpn: u32, bind: &Bind) -> Result<(), MemError> {
        match &*self.get(bind.key)? {
            Mkey::Mw(mw) => mw.bind(pd, qpn, bind, self.get(bind.mr_key).ok()),
            Mkey::Mr(_) | Mkey::FastMr(_) => Err(MemError::Key),
        }
    }

    /// Invalidates `key` for `accessor` (IBTA 10.6.5). Contexts and errors: see
    /// [`FastMr::invalidate`] and [`Mw::invalidate`]; Key also for a region that is not for fast
    /// registration.
    ///
    /// To invalidate the latest key of a region again does no harm, and is no error of a kernel
    /// user.
    pub(crate) fn invalidate(
        &self,
        accessor: Accessor,
        qpn: u32,
        key: u32,
    ) -> Result<(), MemError> {
        let pd = accessor.pd();
        match (&*self.get(key)?, accessor) {
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
        &self,
        pd: PdId,
        advice: Advice,
        key: u32,
        (va, len): (u64, u32),
    ) -> Result {
        let right = match advice.write {
            true => Access::LOCAL_WRITE,
            false => Access::NONE,
        };
        match &*self.get(key).map_err(|_| EFAULT)? {
            Mkey::Mr(mr) if mr.allows(pd, key, right) => mr.advise(advice, va, len.into()),
            _ => Err(EFAULT),
        }
    }
}
