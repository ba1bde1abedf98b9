// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use super::path::Path;
use crate::device::limits::{self, Kind};
use crate::device::pd::{PdId, PdObject};
use crate::device::port::Port;
use crate::rdma::gid::AhAttr;
use crate::sync::bh::irqs_disabled;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::memory::GFP_CHARGED;
use crate::sync::table::Table;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// The address handles of a device, by number. To be dropped in process context.
#[pin_data]
pub(crate) struct Ahs {
    port: Arc<Port>,
    #[pin]
    table: Table<Ah>,
}

impl Ahs {
    /// No address handles, for paths from `port`. Process context. ENOMEM.
    pub(crate) fn new(port: Arc<Port>) -> Result<Arc<Self>> {
        let quota = limits::quota(Kind::Ah, limits::MAX_AH);
        Arc::pin_init(
            pin_init!(Ahs {
                port,
                table <- Table::new(1..=limits::MAX_AH_NUMBER, quota),
            }),
            GFP_KERNEL,
        )
    }

    /// The address handle with this number, if there is one. Any context.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Ah>> {
        self.table.get(number)
    }

    /// The path of an address handle that is made, or changed, now.
    fn path(&self, attr: &AhAttr) -> Result<Path> {
        Path::new(attr, (0, 0), self.port.loopback())
    }

    /// Drops the cached routes of all address handles. One that has just left the table may keep
    /// its route until it is dropped. Process context, sleeps; may be called under RTNL.
    pub(crate) fn forget_routes(&self) {
        self.table.for_each(|ah| ah.forget_route());
    }
}

struct State {
    attr: AhAttr,
    path: Path,
}

/// An address handle. WQEs name it by its number.
#[pin_data]
pub(crate) struct Ah {
    pd: PdId,
    number: u32,
    /// The handle was destroyed. Requests that are already posted still use it, but it caches no
    /// route.
    destroyed: Atomic<bool>,
    #[pin]
    state: SpinLockBh<State>,
}

impl Ah {
    /// Makes an address handle with a number of its own, never 0.
    ///
    /// For a process if `user`: process context. Otherwise any context, as the CM calls in atomic
    /// context. ENOMEM, also when there are too many; EINVAL if the addresses are not of one IP
    /// version.
    fn new(ahs: &Ahs, pd: &PdObject, attr: &AhAttr, user: bool) -> Result<Arc<Self>> {
        let (number, flags) = if user {
            (ahs.table.reserve(&pd.owner)?, GFP_CHARGED)
        } else {
            (ahs.table.reserve_atomic()?, GFP_ATOMIC)
        };
        let state = State {
            attr: attr.clone(),
            path: ahs.path(attr).inspect_err(|_| ahs.table.cancel(number))?,
        };
        let ah = Arc::pin_init(
            pin_init!(Ah {
                pd: pd.id,
                number,
                destroyed: Atomic::new(false),
                state <- new_spinlock_bh!(state, "oxe_ah"),
            }),
            flags,
        )
        .inspect_err(|_| ahs.table.cancel(number))?;
        ahs.table.publish(number, ah.clone());
        Ok(ah)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its protection domain.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// The attributes that it was made with.
    pub(crate) fn query(&self) -> AhAttr {
        self.state.lock().attr.clone()
    }

    /// Calls `with` with the path.
    #[inline]
    pub(crate) fn with_path<T>(&self, with: impl FnOnce(&mut Path) -> T) -> T {
        let mut state = self.state.lock();
        let result = with(&mut state.path);
        if self.destroyed.load(Relaxed) {
            state.path.forget_route();
        }
        result
    }

    /// Drops the cached route.
    fn forget_route(&self) {
        self.state.lock().path.forget_route();
    }

    /// The handle is about to leave the table of address handles, where [`Ahs::forget_routes`]
    /// looks for routes. Any context: the CM destroys handles with interrupts disabled, where the
    /// lock may not be taken. The CM's requests complete as they are posted, so that there is no
    /// other user of the handle by then; the route is freed with the handle after a grace period.
    fn destroy(&self) {
        self.destroyed.store(true, Relaxed);
        if !irqs_disabled() {
            self.forget_route();
        }
    }
}

/// The Rust part of an ib_ah: frees the number when it is dropped.
pub(crate) struct AhObject {
    ahs: Arc<Ahs>,
    ah: Arc<Ah>,
}

impl AhObject {
    /// See [`Ah::new`].
    pub(crate) fn new(ahs: &Arc<Ahs>, pd: &PdObject, attr: &AhAttr, user: bool) -> Result<Self> {
        Ok(AhObject {
            ahs: ahs.clone(),
            ah: Ah::new(ahs, pd, attr, user)?,
        })
    }

    /// Changes the address. It also applies to requests that are posted but not sent yet. EINVAL as
    /// for [`Ah::new`].
    pub(crate) fn modify(&self, attr: &AhAttr) -> Result {
        let path = self.ahs.path(attr)?;
        let mut state = self.ah.state.lock();
        state.attr = attr.clone();
        state.path = path;
        Ok(())
    }
}

impl core::ops::Deref for AhObject {
    type Target = Ah;

    fn deref(&self) -> &Ah {
        &self.ah
    }
}

impl Drop for AhObject {
    fn drop(&mut self) {
        self.ah.destroy();
        self.ahs.table.remove(self.ah.number);
    }
}
