// SPDX-License-Identifier: GPL-2.0

//! The receive path from the socket to the device: finds the one that each packet is for.

use super::delivery::Delivery;
use super::object::Oxe;
use crate::net::lookup;
use crate::net::netdev::NetDevice;
use crate::net::skb::RxSkb;
use crate::net::udp::Receiver;
use crate::proto::wire::bth::BthRepr;
use crate::proto::wire::{Gid, BTH_LEN, ICRC_LEN, ROCE_UDP_PORT};
use crate::rdma::lookup::DeviceRef;
use kernel::sync::Arc;

/// The receiver of the packets of the sockets.
pub(crate) struct Receive;

impl Receiver for Receive {
    const PORT: u16 = ROCE_UDP_PORT;
    const MIN_LEN: u32 = (BTH_LEN + ICRC_LEN) as u32;

    fn receive(skb: RxSkb, netdev: &NetDevice) {
        match find(&skb, netdev) {
            Some(delivery) => Delivery::deliver(&delivery, skb),
            None => skb.reject(),
        }
    }
}

/// The device that a packet is for. A packet that this machine sent to itself comes from the
/// loopback netdev: it is for the netdev that owns the destination address. One that arrived at a
/// VRF is for the netdev below that by which it came.
fn find(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Delivery>> {
    let find = |dev: &NetDevice| find_on(skb, dev);
    if netdev.is_loopback() {
        return lookup::owner(netdev, &skb.destination(), find)?;
    }
    find(netdev).or_else(|| lookup::below_vrf(skb, netdev, find)?)
}

/// The device that a packet is for that arrived at `netdev`: the one on it, or, if it is a VLAN, on
/// the real device below it; else the one that has the destination address as a GID, an address of
/// this very netdev. That lies above the device's own then: a bridge, a bond, a macvlan.
fn find_on(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Delivery>> {
    device_on(netdev)
        .or_else(|| netdev.with_vlan_real(device_on)?)
        .or_else(|| find_by_gid(skb, netdev))
}

/// The device that has the destination address of a packet as an address of `netdev`. If there are
/// several (ports of one bridge), the one that has the queue pair; if none has it, the first, which
/// counts the packet.
#[cold]
fn find_by_gid(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Delivery>> {
    let gid = skb.destination();
    if Gid::new(gid).is_multicast() {
        return find_by_group(netdev, &Gid::new(gid));
    }
    let at = |index| device_with(netdev, &gid, index);
    let mut copy = [0; BTH_LEN];
    let (bth, _) = BthRepr::parse(skb.headers(&mut copy)?).ok()?;
    let has = |delivery: &Arc<Delivery>| delivery.has_qp(bth.dest_qp.get());
    (0..).map_while(at).find(has).or_else(|| at(0))
}

/// The first device on a netdev below `netdev` that has queue pairs in the group.
#[cold]
fn find_by_group(netdev: &NetDevice, group: &Gid) -> Option<Arc<Delivery>> {
    lookup::find_below(netdev, |lower| {
        device_on(lower).filter(|delivery| delivery.groups.count(group) > 0)
    })
}

/// The device on `netdev`, if there is one. Any context but hard irqs.
fn device_on(netdev: &NetDevice) -> Option<Arc<Delivery>> {
    Some(DeviceRef::<Oxe>::by_netdev(netdev)?.delivery.clone())
}

/// The `index`th of the devices that have `gid` as an address of `netdev`. Any context but hard
/// irqs.
fn device_with(netdev: &NetDevice, gid: &[u8; 16], index: u32) -> Option<Arc<Delivery>> {
    Some(
        DeviceRef::<Oxe>::by_gid(netdev, gid, index)?
            .delivery
            .clone(),
    )
}
