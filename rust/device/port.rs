// SPDX-License-Identifier: GPL-2.0

//! The port of a device: its netdev, until that is unregistered, the sockets of its namespace, its
//! counters and settings.

use super::counters::Counters;
use super::limits;
use super::settings::Settings;
use super::tuning::{Control, Tuning};
use crate::net::netdev::{Namespace, NetDevice, Netdev, NetdevId};
use crate::net::route::{Flow, Route};
use crate::net::udp::{self, Receiver, Tunnel};
use crate::rdma::attr::{Mtu, PortAttr};
use crate::rdma::debugfs::Directory;
use crate::rdma::device::Device;
use crate::rdma::gid::AhAttr;
use crate::rdma::gid_table;
use crate::rdma::lookup::IbDeviceRef;
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::quota::Quota;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};

/// The largest overhead of a packet, for which the netdev's MTU must leave room, in bytes: IPv6 40,
/// UDP 8, BTH 12, the longest extended headers 28, ICRC 4.
const OVERHEAD: u32 = 92;

/// The port. It releases the netdev when that is unregistered. The RDMA device may stay for as long
/// as a process uses it.
#[pin_data]
pub(crate) struct Port {
    #[pin]
    netdev: SpinLockBh<Option<Netdev>>,
    #[pin]
    tunnel: Mutex<Option<Tunnel>>,
    home: Namespace,
    settings: Settings,
    tuning: Arc<Tuning>,
    /// The files of `tuning`, while the device is there for its users.
    #[pin]
    files: Mutex<Option<Directory<Tuning>>>,
    /// Whether connections that are made now, and address handles, may take the loopback.
    loopback: Atomic<bool>,
    /// See [`Port::line_rate`].
    line_rate: Atomic<u32>,
    pub(crate) counters: Counters,
    /// The packets that its queue pairs keep.
    pub(crate) kept: Arc<Quota>,
}

/// The netdev and the sockets of a detached port. The sockets are closed before the netdev is
/// released.
pub(crate) struct Detached {
    tunnel: Option<Tunnel>,
    _netdev: Option<Netdev>,
}

impl Drop for Detached {
    fn drop(&mut self) {
        if self.tunnel.take().is_some() {
            // Other users may have kept the sockets open.
            udp::synchronize();
        }
    }
}

/// The rate of a line whose netdev does not tell its speed, as many virtual ones, in Mb/s.
const UNKNOWN_LINE_RATE: u32 = 10_000;

/// The largest path MTU that there is, in bytes.
const MAX_PATH_MTU: u32 = 4096;

/// The largest path MTU in bytes that fits a link MTU of `mtu`: 256 to 4096.
pub(crate) fn path_mtu(mtu: u32) -> u32 {
    let room = mtu.saturating_sub(OVERHEAD);
    [MAX_PATH_MTU, 2048, 1024, 512]
        .into_iter()
        .find(|size| *size <= room)
        .unwrap_or(256)
}

/// The quota for packets that are kept. There is no reserve for kernel users: a packet that is not
/// kept comes again.
fn kept_quota() -> Quota {
    Quota::new(limits::Kind::Kept as usize, limits::MAX_KEPT, 0)
}

impl Port {
    /// A port on the netdev `on`: opens the sockets of its namespace, or shares them with other
    /// devices. Packets go to `R`.
    ///
    /// Process context.
    ///
    /// # Errors
    ///
    /// EADDRINUSE when another program has UDP port 4791, ENOMEM.
    pub(crate) fn new<R: Receiver>(
        on: &NetDevice,
        settings: Settings,
    ) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            netdev <- new_spinlock_bh!(Some(on.hold()), "oxe_port"),
            tunnel <- kernel::new_mutex!(Some(Tunnel::open::<R>(on)?), "oxe_tunnel"),
            home: on.present_namespace(),
            settings,
            tuning: Arc::pin_init(Tuning::new(*settings), GFP_KERNEL)?,
            files <- kernel::new_mutex!(None, "oxe_files"),
            loopback: Atomic::new(settings.loopback),
            line_rate: Atomic::new(UNKNOWN_LINE_RATE),
            counters: Counters::new(on.name()),
            kept: Arc::new(kept_quota(), GFP_KERNEL)?,
        })
    }

    /// Releases the netdev and the sockets. Route lookups fail from now on. Packets are received
    /// until the returned value is dropped (process context, sleeps).
    ///
    /// Process context, sleeps; may be called under RTNL.
    pub(crate) fn detach(&self) -> Detached {
        let netdev = self.netdev.lock().take();
        Detached {
            tunnel: self.tunnel.lock().take(),
            _netdev: netdev,
        }
    }

    /// Calls `with` with the netdev, if there is one. Any context but hard irqs; `with` must not
    /// sleep.
    pub(crate) fn with_netdev<T>(&self, with: impl FnOnce(&NetDevice) -> T) -> Option<T> {
        self.netdev.lock().as_deref().map(with)
    }

    /// The identity of the netdev, if there is one. Any context but hard irqs.
    pub(crate) fn netdev_id(&self) -> Option<NetdevId> {
        self.with_netdev(NetDevice::id)
    }

    /// The network namespace of the netdev, as long as the port has one.
    #[inline]
    pub(crate) fn home(&self) -> Namespace {
        self.home
    }

    /// The settings of the device.
    #[inline]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The files that tune the port are there for root, by the name of `dev`. Without memory there
    /// are none. Process context.
    pub(crate) fn publish<D>(&self, dev: &Device<D>) {
        let files = Directory::new(dev, self.tuning.clone());
        *self.files.lock() = files;
    }

    /// `dev` has another name. Process context.
    pub(crate) fn rename<D>(&self, dev: &Device<D>) {
        if let Some(files) = &*self.files.lock() {
            files.rename(dev);
        }
    }

    /// Removes the files. Process context; waits until nobody reads or writes one.
    pub(crate) fn withdraw(&self) {
        let files = self.files.lock().take();
        drop(files);
    }

    /// The congestion control of a new connection. Softirq or process context.
    pub(crate) fn control(&self) -> Control {
        self.tuning.control(self.line_rate())
    }

    /// The least time between two CNPs of a queue pair, in nanoseconds; `None`: CNPs are not sent.
    /// Any context.
    pub(crate) fn cnp_interval(&self) -> Option<u64> {
        self.settings.roce_np.then(|| self.tuning.cnp_interval())
    }

    /// Whether a path that is made now, and leads back to the device, takes the loopback, and not
    /// packets. Any context.
    pub(crate) fn loopback(&self) -> bool {
        self.loopback.load(Relaxed)
    }

    /// Sets that. Paths that there are stay as they are. Any context.
    pub(crate) fn set_loopback(&self, on: bool) {
        self.loopback.store(on, Relaxed);
    }

    /// Whether the calling process may send from this source GID: an address in its own network
    /// namespace or in the port's. EPERM if not. Process context.
    pub(crate) fn check_source(&self, attr: &AhAttr) -> Result {
        let namespace = attr.namespace();
        if namespace == self.home || namespace == Namespace::of_caller() {
            Ok(())
        } else {
            Err(EPERM)
        }
    }

    /// Looks up the route for `flow`, whose source is a GID of the port, an address of `source`.
    /// Softirq or process context. ENODEV if the GID or the port's netdev is gone; the errors of
    /// [`Route::lookup`].
    pub(crate) fn route(&self, source: NetdevId, flow: &Flow) -> Result<Route> {
        self.with_netdev(|_| {
            let look_up = |netdev: &NetDevice| Route::lookup(netdev, flow);
            gid_table::with_netdev(source, &flow.source, look_up)
        })
        .flatten()
        .ok_or(ENODEV)?
    }

    /// Whether the port has all these GIDs, as addresses of `of`; false when the netdev is gone.
    /// Softirq or process context.
    pub(crate) fn has_gids(&self, of: NetdevId, gids: [&[u8; 16]; 2]) -> bool {
        let has = |netdev: &NetDevice| {
            let device = IbDeviceRef::by_netdev(netdev, limits::DRIVER_ID)?;
            gids.iter().all(|gid| device.has_gid(of, gid)).then_some(())
        };
        self.with_netdev(has).flatten().is_some()
    }

    /// Whether `netdev`, which the port is on, is still there, and in the namespace of the port's
    /// sockets.
    ///
    /// Process context, without the RTNL lock.
    pub(crate) fn is_in_own_netns(&self, netdev: &NetDevice) -> bool {
        // This comes before the lock, which is taken under RTNL elsewhere.
        let home = netdev.namespace();
        let tunnel = self.tunnel.lock();
        tunnel.as_ref().is_some_and(|tunnel| tunnel.is_in(home))
    }

    /// Completes the attributes of the port that the netdev determines: sets the active MTU.
    pub(crate) fn query(&self, attr: &mut PortAttr) -> Result {
        attr.active_mtu = Mtu::fitting(path_mtu(attr.netdev_mtu));
        let rate = match attr.netdev_speed {
            0 => UNKNOWN_LINE_RATE,
            speed => speed,
        };
        self.line_rate.store(rate, Relaxed);
        Ok(())
    }

    /// The speed of the netdev in Mb/s as it was at the latest query. ib_core makes one when it
    /// registers the device, and when the state of the port changes. Any context.
    pub(crate) fn line_rate(&self) -> u32 {
        self.line_rate.load(Relaxed)
    }

    /// The path MTU of the port in bytes. Without a netdev no size is an error: what is sent then
    /// is lost, and soon flushed.
    pub(crate) fn mtu(&self) -> u32 {
        self.with_netdev(NetDevice::mtu)
            .map_or(MAX_PATH_MTU, path_mtu)
    }
}
