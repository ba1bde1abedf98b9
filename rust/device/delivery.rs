// SPDX-License-Identifier: GPL-2.0

//! The delivery of received packets to the queue pairs of a device, by number or by multicast
//! group.

use super::counters::Count;
use super::mcast::Groups;
use super::packet::rx_batch::{RxBatch, RxGroup};
use super::port::Port;
use super::qp::engine;
use super::qp::object::Qps;
use super::qp::progress::Input;
use crate::net::skb::RxSkb;
use crate::proto::wire::{Gid, Qpn};
use crate::sync::lock::{new_spinlock_bh, SpinLockBh};
use crate::sync::{bh, work};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{self, Work, WorkItem};

/// How many queue pairs of a multicast group get a packet in the softirq that brings it. With more
/// of them, a kernel thread passes it on, which the scheduler preempts: packets of one sender must
/// not keep a CPU's softirqs busy a hundred times as long as they take on the wire.
const FANOUT: usize = 32;

/// How many skbs wait for the thread at most.
const BACKLOG: usize = 64;

/// The queue pairs of a device, as receivers of packets.
#[pin_data]
pub(crate) struct Delivery {
    port: Arc<Port>,
    qps: Arc<Qps>,
    #[pin]
    pub(crate) groups: Groups,
    /// The skbs that wait for the thread.
    #[pin]
    backlog: SpinLockBh<KVec<RxBatch>>,
    #[pin]
    backlog_work: Work<Delivery>,
}

workqueue::impl_has_work! { impl HasWork<Delivery> for Delivery { self.backlog_work } }

impl WorkItem for Delivery {
    type Pointer = Arc<Self>;

    /// Process context.
    fn run(this: Arc<Self>) {
        loop {
            let first = this.backlog.lock().remove(0);
            let Ok(mut batch) = first else { return };
            this.deliver_batch(&mut batch, || {
                let _ = bh::cond_resched_killable();
            });
        }
    }
}

impl Delivery {
    /// Delivers the packets that arrive at `port` to `qps`. Process context. ENOMEM.
    pub(crate) fn new(port: Arc<Port>, qps: Arc<Qps>) -> Result<Arc<Self>> {
        let backlog = KVec::with_capacity(BACKLOG, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Delivery {
                port,
                qps,
                groups <- Groups::new(),
                backlog <- new_spinlock_bh!(backlog, "oxe_backlog"),
                backlog_work <- kernel::new_work!("oxe_backlog"),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether there is a queue pair with this number. Any context.
    pub(crate) fn has_qp(&self, qpn: u32) -> bool {
        self.qps.get(qpn).is_some()
    }

    /// Delivers the packets of `skb` to their QPs. Softirq.
    pub(crate) fn deliver(this: &Arc<Self>, skb: RxSkb) {
        let mut batch = RxBatch::new(skb);
        if !batch.begin(&this.port.counters) {
            return;
        }
        if let Some(gid) = batch.group() {
            if this.groups.count(&gid) > FANOUT {
                return Self::deliver_later(this, batch);
            }
        }
        this.deliver_batch(&mut batch, || ());
    }

    /// Has the packets delivered in process context.
    #[cold]
    fn deliver_later(this: &Arc<Self>, mut batch: RxBatch) {
        batch.detach();
        let qpn = Qpn::MULTICAST.get();
        let full = this.backlog.lock().push_within_capacity(batch);
        if let Err(batch) = full {
            drop(batch);
            this.port.counters.lost(Count::GroupOverflow, qpn);
        }
        work::queue_process::<Delivery, 0>(this);
    }

    /// Delivers packets to their QPs. Calls `pause` after each delivery to a member of a group.
    fn deliver_batch(&self, batch: &mut RxBatch, pause: impl Fn()) {
        let counters = &self.port.counters;
        while let Some(mut group) = batch.next_group(counters) {
            if group.is_to_group() || group.qpn() == Qpn::MULTICAST.get() {
                self.deliver_multicast(&mut group, &pause);
                continue;
            }
            match self.qps.get(group.qpn()) {
                Some(qp) => engine::run(&qp, Input::Packets(&mut group)),
                None => counters.lost(Count::NoQp, group.qpn()),
            }
        }
    }

    /// Delivers packets to each QP that is attached to their multicast group (IBTA 10.5.2). Such a
    /// packet has the multicast QP number and a multicast address, or it is dropped (IBTA 9.6.1).
    #[cold]
    fn deliver_multicast(&self, packets: &mut RxGroup<'_>, pause: &impl Fn()) {
        let counters = &self.port.counters;
        let qpn = packets.qpn();
        let valid = packets.is_to_group() && qpn == Qpn::MULTICAST.get();
        while let Some(packet) = packets.next(counters) {
            if !valid {
                counters.lost(Count::WrongAddress, qpn);
                continue;
            }
            let gid = Gid::new(packet.destination);
            let mut place = 0;
            let members = (0..).map_while(|index| self.groups.member(&gid, index, &mut place));
            let mut delivered = false;
            for qp in members.filter_map(|qpn| self.qps.get(qpn)) {
                delivered = true;
                engine::run(&qp, Input::Multicast(packet));
                pause();
            }
            if !delivered {
                counters.lost(Count::NoQp, qpn);
            }
        }
    }
}
