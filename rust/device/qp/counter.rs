// SPDX-License-Identifier: GPL-2.0

//! Counters that QPs are bound to, for `rdma statistic qp`. A QP that is bound to none pays for a
//! test of a pointer where it would count.

use crate::device::counters::{QpValues, Traffic};
use crate::device::limits::{self, Kind};
use crate::device::port::Port;
use crate::net::queue::Sent;
use crate::proto::transport::{DropReason, EventCounts};
use crate::sync::quota::Owner;
use crate::sync::table::Table;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The counter of one QP, or of several. A QP that is bound to it has a reference.
pub(crate) struct QpCounter {
    port: Arc<Port>,
    values: QpValues,
}

impl QpCounter {
    fn traffic(&self, what: Traffic, by: u32) {
        self.values.traffic(what, by);
        self.port.counters.bound.traffic(what, by);
    }

    /// Counts packets that were sent.
    #[cold]
    pub(super) fn sent(&self, sent: &Sent) {
        self.traffic(Traffic::SentPackets, sent.packets);
        self.traffic(Traffic::SentBytes, sent.bytes);
    }

    /// Counts `count` packets that were received, each of `len` bytes from its BTH to its ICRC.
    #[cold]
    pub(super) fn received(&self, count: u16, len: usize) {
        // CAST: a datagram has less than 64 KiB.
        let bytes = (len as u32).saturating_mul(count.into());
        self.traffic(Traffic::RcvdPackets, count.into());
        self.traffic(Traffic::RcvdBytes, bytes);
    }

    /// Counts a packet that was dropped.
    #[cold]
    pub(super) fn dropped(&self, cause: DropReason) {
        self.values.dropped(cause);
        self.port.counters.bound.dropped(cause);
    }

    /// Counts what happened to the requester.
    #[cold]
    pub(super) fn events(&self, counts: &EventCounts) {
        self.values.events(counts);
        self.port.counters.bound.events(counts);
    }
}

/// The numbers of a device's counters. Nothing is looked up by them.
pub(crate) type CounterNumbers = Table<QpCounter>;

/// No numbers in use. Process context. ENOMEM.
pub(crate) fn numbers() -> Result<Arc<CounterNumbers>> {
    // A counter has a QP, or is about to go.
    let quota = limits::quota(Kind::Counter, limits::MAX_QP);
    Arc::pin_init(
        Table::new(1..=limits::MAX_COUNTER_NUMBER, quota),
        GFP_KERNEL,
    )
}

/// The Rust part of an rdma_counter: frees the number when it is dropped.
pub(crate) struct QpCounterObject {
    numbers: Arc<CounterNumbers>,
    number: u32,
    counter: Arc<QpCounter>,
}

impl QpCounterObject {
    /// A counter for QPs of `port`, with a number of its own, never 0. Process context. ENOMEM.
    pub(crate) fn new(numbers: &Arc<CounterNumbers>, port: &Arc<Port>) -> Result<Self> {
        let counter = QpCounter {
            port: port.clone(),
            values: QpValues::new(),
        };
        let counter = Arc::new(counter, GFP_KERNEL)?;
        Ok(QpCounterObject {
            number: numbers.reserve(&Owner::KERNEL)?,
            numbers: numbers.clone(),
            counter,
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The value that is at `index` among the port's counters.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.counter.values.get(index)
    }

    /// The counter, for a QP that is bound to it: see [`Qp::set_counter`].
    ///
    /// [`Qp::set_counter`]: super::object::Qp::set_counter
    pub(crate) fn counter(&self) -> Arc<QpCounter> {
        self.counter.clone()
    }
}

impl Drop for QpCounterObject {
    fn drop(&mut self) {
        self.numbers.cancel(self.number);
    }
}
