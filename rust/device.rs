// SPDX-License-Identifier: GPL-2.0

//! The RDMA device: its objects, one file each, and the tables in which they are found.
//!
//! ```text
//!   post ─> ring ─> send_queue ─> engine ─> service ─> tx_batch, gso ─> wire
//!   wire ─> rx ─> rx_batch ─> engine ─> service ─> mem, recv_queue ─> cq
//!   on one device: loopback in place of tx_batch, wire and rx
//! ```
//!
//! Imports go down from floor to floor, also inside a folder:
//!
//! ```text
//!   driver, rx, link, gid_use                the verbs, arriving packets, netdevs that come and go
//!   qp        handlers, attr, removal        callers of the engine: timers and work, verbs
//!             engine                         one input, processed to completion
//!             object                         the queue pair
//!             service/{rc,uc,ud}             its transport service
//!             send_queue, recv_queue, flush
//!             progress, context, send_wqe, producer, operation
//!   packet    tx_batch, rx_packet, rx_batch  packets that are sent, packets that arrived
//!             loopback, gso, wire_packet
//!             ah, path
//!   cq        completion
//!   mem       sge, payload, grant, mr, error
//!   recv_ring
//!   mcast                                    multicast groups
//!   pd, port, ring, settings, counters, limits
//!   uabi                                     what librxe and the driver share
//! ```

mod counters;
mod cq;
mod driver;
mod gid_use;
mod limits;
mod link;
mod mcast;
mod mem;
mod packet;
mod pd;
mod port;
mod qp;
mod recv_ring;
mod ring;
mod rx;
mod settings;
mod uabi;
mod uabi_layout;

pub(crate) use link::{Addresses, NetdevNotifier, RXE};
pub(crate) use settings::Settings;

use crate::net::netdev::NetDevice;
use crate::rdma::gid_table;
use crate::rdma::lookup::DeviceRef;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::quota::{Account, Quota};
use crate::sync::registry::Registry;
use crate::sync::table::{self, Table};
use crate::sync::timer::Timer;
use counters::Counters;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use limits::{quota, Kind};
use pd::Pds;
use port::Port;

/// The part of a device that packets, work and timers use; it may outlive the `ib_device` for a
/// moment.
#[pin_data]
pub(crate) struct Core {
    #[pin]
    qps: Table<qp::object::Qp>,
    #[pin]
    mkeys: Table<mem::mkey::Mkey>,
    #[pin]
    ahs: Table<packet::ah::Ah>,
    /// Completion queues and shared receive queues are counted alone: nothing finds them by number.
    cqs: Arc<Quota>,
    srqs: Arc<Quota>,
    pds: Pds,
    /// The number of objects of each user, by the user.
    accounts: Arc<Registry<Account>>,
    counters: Counters,
    #[pin]
    port: Port,
    #[pin]
    groups: mcast::Groups,
    /// See [`qp::removal`].
    removal: qp::removal::Removal,
    #[pin]
    backlog: SpinLockBh<rx::Backlog>,
    #[pin]
    backlog_work: Work<Core, 1>,
    #[pin]
    gid_work: Work<Core, 2>,
    #[pin]
    sweep: SpinLockBh<qp::flush::Sweep>,
    #[pin]
    sweep_timer: Timer<Core>,
    #[pin]
    sweep_work: Work<Core>,
}

impl Core {
    /// The core of a device on `netdev`. Process context; errors as for [`Port::new`].
    fn new(netdev: &NetDevice, settings: Settings) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Core {
                qps <- Table::new(
                    limits::MIN_QPN..=limits::MAX_QPN,
                    quota(Kind::Qp, limits::MAX_QP),
                ),
                mkeys <- Table::new(1..=limits::MAX_KEY_INDEX, quota(Kind::Mkey, limits::MAX_MR)),
                ahs <- Table::new(1..=limits::MAX_AH_NUMBER, quota(Kind::Ah, limits::MAX_AH)),
                cqs: Arc::new(quota(Kind::Cq, limits::MAX_CQ), GFP_KERNEL)?,
                srqs: Arc::new(quota(Kind::Srq, limits::MAX_SRQ), GFP_KERNEL)?,
                pds: Pds::new()?,
                accounts: Registry::new()?,
                counters: Counters::new(),
                port <- Port::new::<rx::Receive>(netdev, settings),
                groups <- mcast::Groups::new(),
                removal: qp::removal::Removal::new(),
                backlog <- new_spinlock_bh!(rx::new_backlog()?, "oxe_backlog"),
                backlog_work <- kernel::new_work!("oxe_backlog"),
                gid_work <- kernel::new_work!("oxe_gids"),
                sweep <- new_spinlock_bh!(qp::flush::Sweep::NEW, "oxe_sweep"),
                sweep_timer <- Timer::new(),
                sweep_work <- kernel::new_work!("oxe_sweep"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Releases the netdev and all routes through it: nothing is sent or received any more, not
    /// even by loopback. Returns when no cached route refers to the netdev's namespace, which may
    /// then end at once.
    ///
    /// Process context, sleeps; may be called under RTNL.
    fn detach(&self) {
        let detached = self.port.detach();
        gid_table::invalidate();
        // A QP or AH looks up and caches a route under its own lock. A context that found a route
        // before the port released the netdev either still holds that lock or has released it. A QP
        // or AH that is in neither table caches no route.
        self.forget_routes();
        drop(detached);
    }

    /// Drops the cached routes of all QPs and AHs. Process context, sleeps; may be called under
    /// RTNL.
    fn forget_routes(&self) {
        self.qps.for_each(|qp| qp.forget_route());
        self.ahs.for_each(|ah| ah.forget_route());
        // A QP or AH that has just left its table may keep a route until it is dropped.
        table::rcu_barrier();
    }
}

/// The driver's part of an ib_device.
pub(crate) struct Oxe {
    core: Arc<Core>,
    /// The link is of rdma_rxe's type, and has its identity.
    compat: bool,
}

impl Drop for Oxe {
    /// Releases the netdev now, as packets and work may keep the core for a moment longer.
    ///
    /// Process context.
    fn drop(&mut self) {
        qp::flush::end(&self.core);
        self.core.detach();
    }
}

/// The `index`th of the devices that have `gid` as an address of `netdev`. Any context but hard
/// irqs.
fn device_with(netdev: &NetDevice, gid: &[u8; 16], index: u32) -> Option<Arc<Core>> {
    Some(DeviceRef::<Oxe>::by_gid(netdev, gid, index)?.core.clone())
}

/// The device on `netdev`, if there is one. Any context but hard irqs.
fn device_on(netdev: &NetDevice) -> Option<Arc<Core>> {
    Some(DeviceRef::<Oxe>::by_netdev(netdev)?.core.clone())
}
