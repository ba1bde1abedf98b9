// SPDX-License-Identifier: GPL-2.0

//! Links: `rdma link add` creates a device; `rdma link delete`, or the unregistration of the
//! netdev, removes it.

use super::counters::Count;
use super::gid_rescan::GidRescan;
use super::object::Oxe;
use super::port::path_mtu;
use super::rx::Receive;
use super::settings::Settings;
use crate::net::addr::AddrHandler;
use crate::net::netdev::{Kind, NetDevice};
use crate::net::notifier::{Event, Handler, Notifier};
use crate::rdma::device::Device;
use crate::rdma::error::address_in_use;
use crate::rdma::exclude;
use crate::rdma::lookup::DeviceRef;
use kernel::prelude::*;
use kernel::str::CStr;

/// Handles events of the netdevs that devices are on.
#[pin_data]
pub(crate) struct NetdevNotifier {
    #[pin]
    notifier: Notifier<NetdevEvents>,
}

impl NetdevNotifier {
    /// Registers the notifier. Process context; ENOMEM.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self { notifier <- Notifier::new(NetdevEvents) })
    }
}

struct NetdevEvents;

impl Handler for NetdevEvents {
    fn event(&self, event: Event, netdev: &NetDevice) {
        let Some(device) = DeviceRef::<Oxe>::by_netdev(netdev) else {
            return;
        };
        match event {
            // This event also comes when the netdev moves to another namespace.
            Event::Unregister => {
                device.detach();
                device.unregister_queued();
            }
            Event::Up | Event::Down | Event::Change => {
                if !netdev.is_up() {
                    device.port.counters.count(Count::LinkDowned);
                }
                // The RDMA core does this itself, except for bonds.
                device.port_changed();
            }
            _ => {}
        }
    }
}

/// Keeps the GIDs of devices on netdevs up to date that are not Ethernet: ib_core looks at their
/// addresses only when the device is made. (A GID whose address is gone stays, and sends nothing.)
pub(crate) struct Addresses;

impl AddrHandler for Addresses {
    fn added(netdev: &NetDevice) {
        if netdev.kind() == Kind::Ip {
            if let Some(device) = DeviceRef::<Oxe>::by_netdev(netdev) {
                GidRescan::queue(&device.gid_rescan);
            }
        }
    }
}

/// The directory of rdma_rxe in sysfs while it is loaded. It would take our devices for its own.
pub(crate) const RXE: &CStr = c"/sys/module/rdma_rxe";

/// Makes the device `name` on `netdev`; `compat`: for a link of rdma_rxe's type. The kernel log
/// says what was made, or why nothing was.
///
/// Process context, without RTNL.
///
/// # Errors
///
/// EINVAL for a netdev that carries no IP packets or is a VLAN, ENODEV if it goes away or moves to
/// another namespace meanwhile, EEXIST when the netdev already has a device, ENFILE when the name
/// is in use, EADDRINUSE when another program has UDP port 4791, EBUSY when rdma_rxe is loaded,
/// ENOMEM.
pub(crate) fn add(name: &CStr, netdev: &NetDevice, compat: bool) -> Result {
    if netdev.kind() == Kind::Vlan {
        explain_vlan(name, netdev);
        return Err(EINVAL);
    }
    let settings = Settings::provided().ok_or(ENODEV)?;
    make(name, netdev, settings, compat).inspect_err(|error| explain(name, netdev, *error))?;
    // ib_core compares the state of a port with that at the last notification. Without a first one,
    // programs would be told of a change at any later event of the netdev.
    if let Some(device) = DeviceRef::<Oxe>::by_netdev(netdev) {
        device.port_changed();
    }
    report(name, netdev, settings);
    Ok(())
}

/// The device is there.
fn report(name: &CStr, netdev: &NetDevice, settings: Settings) {
    let mtu = netdev.mtu();
    let sending = if netdev.supports_udp_gso() && settings.segmentation {
        "super-packets (UDP GSO)"
    } else {
        "single packets"
    };
    pr_info!(
        "{}: on {}, MTU {mtu}, path MTU {}, sends {sending}\n",
        *name,
        netdev.name(),
        path_mtu(mtu)
    );
}

/// There is no device, for this reason.
fn explain(name: &CStr, netdev: &NetDevice, error: Error) {
    let netdev = netdev.name();
    match error {
        EBUSY => pr_err!(
            "{}: not made while rdma_rxe is loaded: modprobe -r rdma_rxe\n",
            *name
        ),
        EEXIST => pr_err!(
            "{}: not made: {netdev} has a device already: rdma link\n",
            *name
        ),
        ENFILE => pr_err!("{}: not made: a device has that name: rdma link\n", *name),
        error if error == address_in_use() => pr_err!(
            "{}: not made: UDP port 4791 is in use: ss -ulnp 'sport = :4791'\n",
            *name
        ),
        ENODEV => pr_err!(
            "{}: not made: {netdev} went away or to another netns\n",
            *name
        ),
        EINVAL => pr_err!(
            "{}: not made: {netdev} carries no IP packets, or the name is invalid\n",
            *name
        ),
        error => pr_err!("{}: not made on {netdev}: {error:?}\n", *name),
    }
}

/// There is no device for a VLAN: the device of the netdev below it serves its addresses.
fn explain_vlan(name: &CStr, netdev: &NetDevice) {
    netdev.with_vlan_real(|real| {
        pr_err!(
            "{}: not made: {} is a VLAN, whose addresses a device on {} serves: rdma link add {} \
             type oxe netdev {}\n",
            *name,
            netdev.name(),
            real.name(),
            *name,
            real.name()
        );
    });
}

fn make(name: &CStr, netdev: &NetDevice, settings: Settings, compat: bool) -> Result {
    if exclude::is_loaded(RXE) {
        return Err(EBUSY);
    }
    if netdev.kind() == Kind::Other {
        return Err(EINVAL);
    }
    if DeviceRef::<Oxe>::by_netdev(netdev).is_some() {
        return Err(EEXIST);
    }
    Device::register(
        name,
        netdev,
        Oxe::new::<Receive>(netdev, settings, compat),
        |oxe| {
            let sound = oxe.port.is_in_own_netns(netdev);
            if !sound {
                oxe.detach();
            }
            sound
        },
    )
}
