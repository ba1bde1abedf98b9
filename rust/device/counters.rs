// SPDX-License-Identifier: GPL-2.0

//! The counters of a port. `rdma statistic show` and the files under `hw_counters` show them, and
//! `rdma statistic qp` those that a queue pair has, too.

use crate::net::netdev::Name;
use crate::proto::transport::{DropReason, EventCounts, RequesterEvent};
use crate::proto::wire::perf_mgmt::PortCounters;
use crate::proto::wire::{counted, ParseError};
use crate::rdma::trace::{self, Event, TracedQp};
use kernel::str::CStr;
use kernel::sync::atomic::{Atomic, Relaxed};

counted! {
    /// Counters of packets, whatever becomes of them.
    pub(crate) enum Traffic {
        SentPackets = c"sent_pkts",
        RcvdPackets = c"rcvd_pkts",
        /// Bytes of packets, each from its BTH to its ICRC.
        SentBytes = c"sent_bytes",
        RcvdBytes = c"rcvd_bytes",
    }
}

counted! {
    /// Counters that queue pairs do not have, and that are no error of the parser.
    pub(crate) enum Count {
        SendErrors = c"send_err",
        LinkDowned = c"link_downed",
        BadIcrc = c"rcvd_bad_icrc",
        NoQp = c"rcvd_no_qp",
        WrongAddress = c"rcvd_wrong_address",
        NoMemory = c"send_no_memory",
        WrongSrcQp = c"rcvd_wrong_src_qp",
        /// Counted besides `BadIcrc`.
        BadIcrcGso = c"rcvd_bad_icrc_gso",
        GroupOverflow = c"rcvd_group_overflow",
        WrongNamespace = c"rcvd_wrong_netns",
        CnpsSent = c"np_cnp_sent",
        CeMarked = c"np_ecn_marked_roce_packets",
        /// Counted besides [`DropReason::OutOfSequence`].
        KeptRequests = c"kept_requests",
    }
}

/// The counters, kind by kind, in the order in which they are kept.
const KINDS: [&[&CStr]; 5] = [
    Traffic::COUNTERS,
    RequesterEvent::COUNTERS,
    DropReason::COUNTERS,
    Count::COUNTERS,
    ParseError::COUNTERS,
];

/// Where the kind at `kind` begins.
const fn begin(kind: usize) -> usize {
    let (mut index, mut before) = (0, 0);
    while before < kind {
        index += KINDS[before].len();
        before += 1;
    }
    index
}

const EVENTS: usize = begin(1);
const DROPS: usize = begin(2);
const OWN: usize = begin(3);
const PARSER: usize = begin(4);

/// The number of counters that a queue pair has: the first ones of a port.
pub(crate) const QP_TOTAL: usize = OWN;

/// The number of counters.
const TOTAL: usize = begin(KINDS.len());

/// The names of the counters, in the order of their values.
pub(crate) const NAMES: [&CStr; TOTAL] = {
    let mut names = [c""; TOTAL];
    let (mut kind, mut index) = (0, 0);
    while kind < KINDS.len() {
        let mut each = 0;
        while each < KINDS[kind].len() {
            names[index] = KINDS[kind][each];
            assert!(names[index].count_bytes() < trace::NAME_SIZE);
            index += 1;
            each += 1;
        }
        kind += 1;
    }
    names
};

/// Values of the first `N` counters. Read and written in any context.
pub(crate) struct Values<const N: usize>([Atomic<u64>; N]);

/// The values of the counters that a queue pair has.
pub(crate) type QpValues = Values<QP_TOTAL>;

impl<const N: usize> Values<N> {
    /// All zero.
    pub(crate) fn new() -> Self {
        Values(core::array::from_fn(|_| Atomic::new(0)))
    }

    #[inline]
    fn bump(&self, index: usize, by: u32) {
        if let Some(counter) = self.0.get(index).filter(|_| by != 0) {
            counter.add(u64::from(by), Relaxed);
        }
    }

    /// The value at `index` of [`NAMES`].
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |counter| counter.load(Relaxed))
    }

    /// Counts packets, or their bytes.
    #[inline]
    pub(crate) fn traffic(&self, what: Traffic, by: u32) {
        self.bump(what as usize, by);
    }

    /// Counts a packet that was dropped.
    #[inline]
    pub(crate) fn dropped(&self, cause: DropReason) {
        self.bump(DROPS + cause as usize, 1);
    }

    /// Counts what happened to a requester.
    pub(crate) fn events(&self, counts: &EventCounts) {
        for (index, by) in (EVENTS..).zip(counts) {
            self.bump(index, *by);
        }
    }
}

/// The counters of one port. Read and written in any context.
pub(crate) struct Counters {
    all: Values<TOTAL>,
    /// The part of it that queue pairs have counted for `rdma statistic qp`, see [`QpCounter`].
    ///
    /// [`QpCounter`]: super::qp::counter::QpCounter
    pub(crate) bound: QpValues,
    /// The netdev's name when the port was made, by which traces name the port.
    netdev: Name,
}

impl core::ops::Deref for Counters {
    type Target = Values<TOTAL>;

    #[inline]
    fn deref(&self) -> &Values<TOTAL> {
        &self.all
    }
}

impl Counters {
    /// All zero.
    pub(crate) fn new(netdev: Name) -> Self {
        Counters {
            all: Values::new(),
            bound: Values::new(),
            netdev,
        }
    }

    /// A QP of the port, as traces name it; 0 if a packet has none.
    #[inline]
    pub(crate) fn traced(&self, qpn: u32) -> TracedQp<'_> {
        TracedQp {
            netdev: self.netdev.as_c_str(),
            qpn,
        }
    }

    /// Counts `by`.
    #[inline]
    pub(crate) fn add(&self, what: Count, by: u32) {
        self.bump(OWN + what as usize, by);
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&self, what: Count) {
        self.add(what, 1);
    }

    /// Counts a packet to QP `qpn` that is dropped before its QP has it.
    #[cold]
    pub(crate) fn lost(&self, what: Count, qpn: u32) {
        self.drop_at(OWN + what as usize, qpn);
    }

    /// Counts a datagram that is no packet.
    #[cold]
    pub(crate) fn parse_error(&self, error: ParseError) {
        self.drop_at(PARSER + error as usize, 0);
    }

    /// Counts a packet that QP `qpn` has dropped.
    #[inline]
    pub(crate) fn dropped_by(&self, qpn: u32, cause: DropReason) {
        self.drop_at(DROPS + cause as usize, qpn);
    }

    /// Counts a packet for QP `qpn` that was dropped.
    fn drop_at(&self, index: usize, qpn: u32) {
        self.bump(index, 1);
        if trace::is_on(Event::Drop) {
            if let Some(name) = NAMES.get(index) {
                trace::drop(&self.traced(qpn), name);
            }
        }
    }

    /// The counters that every port has (IBTA 16.1.3.5).
    pub(crate) fn of_port(&self) -> PortCounters {
        let traffic = |what: Traffic| self.get(what as usize);
        let own = |what: Count| self.get(OWN + what as usize);
        let parser = (PARSER..TOTAL).map(|index| self.get(index));
        PortCounters {
            sent_bytes: traffic(Traffic::SentBytes),
            rcvd_bytes: traffic(Traffic::RcvdBytes),
            sent_packets: traffic(Traffic::SentPackets),
            rcvd_packets: traffic(Traffic::RcvdPackets),
            send_errors: own(Count::SendErrors),
            rcv_errors: parser.fold(own(Count::BadIcrc), u64::saturating_add),
            link_downed: own(Count::LinkDowned),
        }
    }

    /// Copies the values to `out`, in the order of [`NAMES`], without what is counted for `rdma
    /// statistic qp`: ib_core adds the values of those counters, and of earlier ones. It reads them
    /// later, so that this is read first, and a sum may be behind, but not ahead.
    pub(crate) fn read_unbound(&self, out: &mut [u64]) {
        for (index, value) in out.iter_mut().enumerate() {
            *value = self.get(index);
            *value = value.wrapping_sub(self.bound.get(index));
        }
    }
}
