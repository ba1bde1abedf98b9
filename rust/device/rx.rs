// SPDX-License-Identifier: GPL-2.0

//! The receive path from the socket to the QP: finds the device and the QP of each packet.

use super::counters::Count;
use super::packet::rx_batch::{RxBatch, RxGroup};
use super::qp::engine;
use super::qp::progress::Input;
use super::Core;
use crate::net::lookup;
use crate::net::netdev::NetDevice;
use crate::net::skb::RxSkb;
use crate::net::udp::Receiver;
use crate::proto::wire::bth::BthRepr;
use crate::proto::wire::{Gid, Qpn, BTH_LEN, ICRC_LEN, ROCE_UDP_PORT};
use crate::sync::{bh, work};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{self, WorkItem};

/// The receiver of the packets of the sockets.
pub(crate) struct Receive;

impl Receiver for Receive {
    const PORT: u16 = ROCE_UDP_PORT;
    const MIN_LEN: u32 = (BTH_LEN + ICRC_LEN) as u32;

    fn receive(skb: RxSkb, netdev: &NetDevice) {
        match find_core(&skb, netdev) {
            Some(core) => deliver(&core, skb),
            None => skb.reject(),
        }
    }
}

/// The device that a packet is for. A packet that this machine sent to itself comes from the
/// loopback netdev: it is for the netdev that owns the destination address. One that arrived at a
/// VRF is for the netdev below that by which it came.
fn find_core(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Core>> {
    let find = |dev: &NetDevice| find_on(skb, dev);
    if netdev.is_loopback() {
        return lookup::owner(netdev, &skb.destination(), find)?;
    }
    find(netdev).or_else(|| lookup::below_vrf(skb, netdev, find)?)
}

/// The device that a packet is for that arrived at `netdev`: the one on it, or, if it is a VLAN, on
/// the real device below it; else the one that has the destination address as a GID, an address of
/// this very netdev. That lies above the device's own then: a bridge, a bond, a macvlan.
fn find_on(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Core>> {
    super::device_on(netdev)
        .or_else(|| netdev.with_vlan_real(super::device_on)?)
        .or_else(|| find_by_gid(skb, netdev))
}

/// The device that has the destination address of a packet as an address of `netdev`. If there are
/// several (ports of one bridge), the one that has the queue pair; if none has it, the first, which
/// counts the packet.
#[cold]
fn find_by_gid(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Core>> {
    let gid = skb.destination();
    if Gid::new(gid).is_multicast() {
        return find_by_group(netdev, &Gid::new(gid));
    }
    let at = |index| super::device_with(netdev, &gid, index);
    let mut copy = [0; BTH_LEN];
    let (bth, _) = BthRepr::parse(skb.headers(&mut copy)?).ok()?;
    let has = |core: &Arc<Core>| core.qps.get(bth.dest_qp.get()).is_some();
    (0..).map_while(at).find(has).or_else(|| at(0))
}

/// The first device on a netdev below `netdev` that has queue pairs in the group.
#[cold]
fn find_by_group(netdev: &NetDevice, group: &Gid) -> Option<Arc<Core>> {
    lookup::find_below(netdev, |lower| {
        super::device_on(lower).filter(|core| core.groups.count(group) > 0)
    })
}

/// How many queue pairs of a multicast group get a packet in the softirq that brings it. With more
/// of them, a kernel thread passes it on, which the scheduler preempts: packets of one sender must
/// not keep a CPU's softirqs busy a hundred times as long as they take on the wire.
const FANOUT: usize = 32;

/// How many skbs wait for the thread at most.
const BACKLOG: usize = 64;

/// The skbs that wait for the thread.
pub(super) type Backlog = KVec<RxBatch>;

/// An empty backlog, with room for all that may wait. ENOMEM.
pub(super) fn new_backlog() -> Result<Backlog> {
    Ok(KVec::with_capacity(BACKLOG, GFP_KERNEL)?)
}

workqueue::impl_has_work! { impl HasWork<Core, 1> for Core { self.backlog_work } }

impl WorkItem<1> for Core {
    type Pointer = Arc<Self>;

    /// Process context.
    fn run(this: Arc<Self>) {
        loop {
            let first = this.backlog.lock().remove(0);
            let Ok(batch) = first else { return };
            deliver_batch(&this, batch, || {
                let _ = bh::cond_resched_killable();
            });
        }
    }
}

/// Delivers the packets of `skb` to their QPs.
fn deliver(core: &Arc<Core>, skb: RxSkb) {
    let Some(batch) = RxBatch::new(core, skb) else {
        return;
    };
    if let Some(gid) = batch.group() {
        if core.groups.count(&gid) > FANOUT {
            return deliver_later(core, batch);
        }
    }
    deliver_batch(core, batch, || ());
}

/// Has the packets delivered in process context.
#[cold]
fn deliver_later(core: &Arc<Core>, mut batch: RxBatch) {
    batch.detach();
    let full = core.backlog.lock().push_within_capacity(batch);
    if let Err(batch) = full {
        drop(batch);
        core.counters.count(Count::GroupOverflow);
    }
    work::queue_process::<Core, 1>(core);
}

/// Delivers packets to their QPs. Calls `pause` after each delivery to a member of a group.
fn deliver_batch(core: &Arc<Core>, mut batch: RxBatch, pause: impl Fn()) {
    while let Some(mut group) = batch.next_group(core) {
        if group.is_to_group() || group.qpn() == Qpn::MULTICAST.get() {
            deliver_multicast(core, &mut group, &pause);
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
fn deliver_multicast(core: &Core, packets: &mut RxGroup<'_>, pause: &impl Fn()) {
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
            pause();
        }
        if !delivered {
            core.counters.count(Count::NoQp);
        }
    }
}
