// SPDX-License-Identifier: GPL-2.0

//! The device: its parts, and how they are made and torn down.

use super::delivery::Delivery;
use super::gid_rescan::GidRescan;
use super::limits::{self, Kind};
use super::mem::mkeys::Mkeys;
use super::packet::ah::Ahs;
use super::pd::Pds;
use super::port::Port;
use super::qp::counter::{self, CounterNumbers};
use super::qp::object::Qps;
use super::settings::Settings;
use crate::net::netdev::NetDevice;
use crate::net::udp::Receiver;
use crate::rdma::gid_table;
use crate::sync::quota::{Account, Quota};
use crate::sync::registry::Registry;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The driver's part of an ib_device. Packets, work and timers use the parts in an [`Arc`], which
/// may outlive the `ib_device` for a moment.
pub(crate) struct Oxe {
    pub(super) port: Arc<Port>,
    pub(super) pds: Pds,
    pub(super) mkeys: Arc<Mkeys>,
    /// Completion queues and shared receive queues are counted alone: nothing finds them by number.
    pub(super) cqs: Arc<Quota>,
    pub(super) srqs: Arc<Quota>,
    pub(super) ahs: Arc<Ahs>,
    pub(super) qps: Arc<Qps>,
    /// The numbers of the counters that queue pairs are bound to.
    pub(super) counter_numbers: Arc<CounterNumbers>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) gid_rescan: Arc<GidRescan>,
    /// The number of objects of each user, by the user.
    pub(super) accounts: Arc<Registry<Account>>,
    /// The link is of rdma_rxe's type, and has its identity.
    pub(super) compat: bool,
}

impl Oxe {
    /// A device on `netdev`, whose packets go to `R`. Process context; errors as for [`Port::new`].
    pub(super) fn new<R: Receiver>(
        netdev: &NetDevice,
        settings: Settings,
        compat: bool,
    ) -> Result<Self> {
        let mkeys = Mkeys::new()?;
        let accounts = Registry::new()?;
        let port = Arc::pin_init(Port::new::<R>(netdev, settings), GFP_KERNEL)?;
        let ahs = Ahs::new(port.clone())?;
        let qps = Qps::new(port.clone(), mkeys.clone(), ahs.clone())?;
        Ok(Oxe {
            pds: Pds::new()?,
            mkeys,
            cqs: Arc::new(limits::quota(Kind::Cq, limits::MAX_CQ), GFP_KERNEL)?,
            srqs: Arc::new(limits::quota(Kind::Srq, limits::MAX_SRQ), GFP_KERNEL)?,
            ahs,
            delivery: Delivery::new(port.clone(), qps.clone())?,
            counter_numbers: counter::numbers()?,
            gid_rescan: GidRescan::new(port.clone())?,
            qps,
            port,
            accounts,
            compat,
        })
    }

    /// Releases the netdev and all routes through it: nothing is sent or received any more, not
    /// even by loopback. Returns when no cached route refers to the netdev's namespace, which may
    /// then end at once.
    ///
    /// Process context, sleeps; may be called under RTNL.
    pub(super) fn detach(&self) {
        let detached = self.port.detach();
        gid_table::invalidate();
        // A QP or AH looks up and caches a route under its own lock. A context that found a route
        // before the port released the netdev either still holds that lock or has released it. A QP
        // or AH that is in neither table caches no route.
        self.qps.forget_routes();
        drop(detached);
    }
}

impl Drop for Oxe {
    /// Releases the netdev now, as packets and work may keep the port for a moment longer.
    ///
    /// Process context.
    fn drop(&mut self) {
        self.qps.end_sweep();
        self.detach();
    }
}
