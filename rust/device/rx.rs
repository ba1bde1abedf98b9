// SPDX-License-Identifier: GPL-2.0

//! The receive path from the socket to the QP: finds the device and the QP of each packet.

use super::counters::Count;
use super::packet::path::ROCE_PORT;
use super::packet::rx_batch::{RxBatch, RxGroup};
use super::qp::engine;
use super::qp::progress::Input;
use super::Core;
use crate::net::lookup;
use crate::net::netdev::NetDevice;
use crate::net::skb::RxSkb;
use crate::net::udp::Receiver;
use crate::proto::wire::{Gid, Qpn, BTH_LEN, ICRC_LEN};
use kernel::sync::Arc;

/// The receiver of the packets of the sockets.
pub(crate) struct Receive;

impl Receiver for Receive {
    const PORT: u16 = ROCE_PORT;
    const MIN_LEN: u32 = (BTH_LEN + ICRC_LEN) as u32;

    fn receive(skb: RxSkb, netdev: &NetDevice) {
        match find_core(&skb, netdev) {
            Some(core) => deliver(&core, skb),
            // For example by a bridge above the device's netdev.
            None => skb.reject(),
        }
    }
}

/// The device that a packet is for: the one on the netdev that received it, or, if that is a VLAN,
/// on the real device below it. A packet from the loopback netdev is for the device that owns the
/// destination address.
fn find_core(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Core>> {
    let find =
        |dev: &NetDevice| super::device_on(dev).or_else(|| dev.with_vlan_real(super::device_on)?);
    if netdev.is_loopback() {
        lookup::owner(netdev, &skb.destination(), find)?
    } else {
        find(netdev)
    }
}

/// Delivers the packets of `skb` to their QPs.
fn deliver(core: &Arc<Core>, skb: RxSkb) {
    let Some(mut batch) = RxBatch::new(core, skb) else {
        return;
    };
    while let Some(mut group) = batch.next_group(core) {
        if group.is_to_group() || group.qpn() == Qpn::MULTICAST.get() {
            deliver_multicast(core, &mut group);
            continue;
        }
        match core.qps.get(group.qpn()) {
            Some(qp) => engine::run(&qp, Input::Packets(&mut group)),
            None => core.counters.count(Count::NoQp),
        }
    }
}

/// Delivers packets to each QP that is attached to their multicast group (IBTA 10.5.2). Such a
/// packet has the multicast QP number and a multicast address, or it is dropped (IBTA 9.6.1).
#[cold]
fn deliver_multicast(core: &Core, packets: &mut RxGroup<'_>) {
    let valid = packets.is_to_group() && packets.qpn() == Qpn::MULTICAST.get();
    while let Some(packet) = packets.next(core) {
        if !valid {
            core.counters.count(Count::WrongAddress);
            continue;
        }
        let gid = Gid::new(packet.destination);
        let mut place = 0;
        let members = (0..).map_while(|index| core.groups.member(&gid, index, &mut place));
        let mut delivered = false;
        for qp in members.filter_map(|qpn| core.qps.get(qpn)) {
            delivered = true;
            engine::run(&qp, Input::Multicast(packet));
        }
        if !delivered {
            core.counters.count(Count::NoQp);
        }
    }
}
