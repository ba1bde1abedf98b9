// SPDX-License-Identifier: GPL-2.0

//! Memory windows (IBTA 10.6.7): parts of regions that a process opens to peers, with bounds,
//! rights and keys of their own, by work requests.

use super::error::MemError;
use super::mr::{Mr, Side};
use super::range::Range;
use crate::device::pd::PdId;
use crate::proto::transport::AccessError;
use crate::rdma::access::Access;
use crate::rdma::mr::MwType;
use crate::rdma::strided::StridedSrc;
use crate::rdma::umem::Word;
use crate::sync::bh::BhGuard;
use crate::sync::gate::{Alone, Gate};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The flags of a bind request: the rights that a window can grant. Local write is of no effect, as
/// windows are for peers, but programs ask for it.
const FLAGS: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::LOCAL_WRITE)
    .union(Access::ZERO_BASED);

/// The object of a key, which may be a region that a window can be bound to.
pub(crate) trait Bindable {
    /// The region, if it is one.
    fn as_mr(&self) -> Option<&Mr>;
}

/// The latest binding of a window. `K` is the type of the objects that keys name.
struct Binding<K> {
    key: u32,
    /// The region; `None` if the window is not bound.
    mr: Option<Arc<K>>,
    /// The QP that bound it.
    qpn: u32,
    access: Access,
    /// The addresses that peers use.
    range: Range,
    /// The address of the first byte in the region.
    start: u64,
    /// The window is deallocated. A bind request that found it before must not bind it any more, or
    /// its region could never be deregistered.
    closed: bool,
}

/// A memory window.
pub(crate) struct Mw<K> {
    pd: PdId,
    kind: MwType,
    binding: Gate<Binding<K>>,
}

/// The parameters of a bind request.
#[derive(Clone, Copy)]
pub(crate) struct Bind {
    /// The new key.
    pub(crate) key: u32,
    pub(crate) mr_key: u32,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
}

impl<K: Bindable> Mw<K> {
    /// A window that is not bound. `key` is the one that it would have.
    pub(super) fn new(key: u32, pd: PdId, kind: MwType) -> Self {
        Mw {
            pd,
            kind,
            binding: Gate::new(Binding {
                key,
                mr: None,
                qpn: 0,
                access: Access::NONE,
                range: Range::default(),
                start: 0,
                closed: false,
            }),
        }
    }

    /// Binds the window to a part of `mr`, the region that the request names, for QP `qpn`. One of
    /// type 1 is unbound by a length of 0, and leaves what it was bound to (IBTA 10.6.7.2.1).
    ///
    /// Any context with bottom halves disabled, but not during an access to a region.
    ///
    /// # Errors
    ///
    /// Key if the PDs differ, the rights are not the region's to grant, or a window of type 2 is
    /// bound already; Bounds; Revoked if the region is being deregistered or the window is
    /// deallocated.
    pub(super) fn bind(
        &self,
        pd: PdId,
        qpn: u32,
        bind: &Bind,
        mr: Option<Arc<K>>,
    ) -> Result<(), MemError> {
        if self.pd != pd {
            return Err(MemError::Key);
        }
        let Some(mr) = self.check(bind, mr)? else {
            return self.leave();
        };
        let region = mr.as_mr().ok_or(MemError::Key)?;
        region.bind()?;
        let Some(mut binding) = self.alone() else {
            region.unbind();
            return Err(MemError::Key);
        };
        if binding.closed {
            region.unbind();
            return Err(MemError::Revoked);
        }
        binding.unbind();
        let zero_based = bind.access.contains(Access::ZERO_BASED);
        binding.key = bind.key;
        binding.qpn = qpn;
        binding.access = bind.access;
        binding.range = Range {
            iova: if zero_based { 0 } else { bind.start },
            length: bind.length,
        };
        binding.start = bind.start;
        binding.mr = Some(mr);
        binding.open();
        Ok(())
    }

    /// The region to bind to, if it may be; `None` to unbind.
    fn check(&self, bind: &Bind, mr: Option<Arc<K>>) -> Result<Option<Arc<K>>, MemError> {
        if !FLAGS.contains(bind.access) {
            return Err(MemError::Key);
        }
        if bind.length == 0 {
            return match self.kind {
                MwType::One => Ok(None),
                MwType::TwoB => Err(MemError::Bounds),
            };
        }
        let mr = mr.ok_or(MemError::Key)?;
        let region = mr.as_mr().ok_or(MemError::Key)?;
        // IBTA 10.6.7.2.2: the region admits windows, and the peers' writes are writes of its own.
        let writes = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let mut needed = if bind.access.intersects(writes) {
            Access::MW_BIND | Access::LOCAL_WRITE
        } else {
            Access::MW_BIND
        };
        // The region says which placement types its memory has (IBTA annex A19.4.1).
        if bind.access.contains(Access::FLUSH_GLOBAL) {
            needed = needed | Access::FLUSH_GLOBAL;
        }
        if !region.allows(self.pd, bind.mr_key, needed) {
            return Err(MemError::Key);
        }
        region.range().offset(bind.start, bind.length)?;
        Ok(Some(mr))
    }

    /// The binding, for a new one. A window of type 2 must not be bound (IBTA 10.6.7.2.3).
    fn alone(&self) -> Option<Alone<'_, Binding<K>>> {
        match self.kind {
            MwType::One => Some(self.binding.seize()),
            MwType::TwoB => self.binding.change(),
        }
    }

    /// Unbinds a window of type 1, if it is bound.
    fn leave(&self) -> Result<(), MemError> {
        self.binding.seize().unbind();
        Ok(())
    }

    /// Invalidates the key of a window of type 2, at the request of QP `qpn` or its peer. On return
    /// no peer accesses memory by the window. Contexts: as for [`Mw::bind`].
    ///
    /// # Errors
    ///
    /// Key if the window is of type 1, its PD, QP or key is another one, or it is not bound
    /// (IBTA 10.6.7.2.6).
    pub(super) fn invalidate(&self, pd: PdId, qpn: u32, key: u32) -> Result<(), MemError> {
        if self.kind != MwType::TwoB {
            return Err(MemError::Key);
        }
        let (generation, _) = self
            .admit(pd, qpn, key, Access::NONE)
            .ok_or(MemError::Key)?;
        let mut binding = self.binding.shut(generation).ok_or(MemError::Key)?;
        binding.unbind();
        Ok(())
    }

    /// Unbinds the window for good. Process context.
    pub(super) fn close(&self) {
        let _bh = BhGuard::new();
        let mut binding = self.binding.seize();
        binding.closed = true;
        binding.unbind();
    }

    /// The generation and the addresses of the binding, if `key` is its key, and the peer of QP
    /// `qpn` may use it in that way. The QP's PD is `pd` (IBTA 10.6.7.2.4: type 1 goes by the PD,
    /// type 2B also by the QP).
    pub(super) fn admit(
        &self,
        pd: PdId,
        qpn: u32,
        key: u32,
        access: Access,
    ) -> Option<(u32, Range)> {
        let entered = self.binding.enter()?;
        let allowed = self.pd == pd
            && (self.kind == MwType::One || entered.qpn == qpn)
            && entered.key == key
            && entered.access.contains(access);
        allowed.then(|| (entered.generation(), entered.range))
    }

    /// Whether this binding has not ended. Any context.
    pub(super) fn is_open(&self, generation: u32) -> bool {
        self.binding.is_open(generation)
    }

    /// Calls `access` with the region and the address there, for the `len` bytes at `va` of this
    /// binding, which stays until it returns.
    ///
    /// # Errors
    ///
    /// Revoked, Bounds; the errors of `access`.
    pub(super) fn with<T, E: From<MemError>>(
        &self,
        generation: u32,
        va: u64,
        len: usize,
        access: impl FnOnce(&Mr, u64) -> Result<T, E>,
    ) -> Result<T, E> {
        let binding = self.binding.enter_again(generation);
        let binding = binding.ok_or(MemError::Revoked)?;
        let offset = binding.range.offset(va, len as u64)?;
        let mr = binding.mr.as_deref().and_then(K::as_mr);
        let mr = mr.ok_or(MemError::Revoked)?;
        access(mr, binding.start.wrapping_add(offset))
    }

    /// As [`Mr::with_word`], in this binding.
    pub(super) fn with_word<T>(
        &self,
        generation: u32,
        va: u64,
        access: impl FnOnce(Word<'_>) -> T,
    ) -> Result<T, AccessError> {
        self.with(generation, va, 8, |mr, at| {
            mr.with_word(Side::Peer, at, access)
        })
    }

    /// As [`Mr::write`], in this binding.
    pub(super) fn write(
        &self,
        generation: u32,
        va: u64,
        bytes: StridedSrc<'_>,
    ) -> Result<(), MemError> {
        self.with(generation, va, bytes.len(), |mr, at| {
            mr.write(Side::Peer, at, bytes)
        })
    }

    /// As [`Mr::for_each_chunk`], in this binding.
    pub(super) fn for_each_chunk(
        &self,
        generation: u32,
        va: u64,
        len: usize,
        each: &mut dyn FnMut(StridedSrc<'_>) -> Option<()>,
    ) -> Result<(), MemError> {
        self.with(generation, va, len, |mr, at| {
            mr.for_each_chunk(Side::Peer, at, len, each)
        })
    }
}

impl<K: Bindable> Binding<K> {
    /// Takes the window back from the region, if it is bound.
    fn unbind(&mut self) {
        if let Some(mr) = self.mr.take() {
            if let Some(region) = mr.as_mr() {
                region.unbind();
            }
        }
    }
}
