// SPDX-License-Identifier: GPL-2.0

//! The packets of one received skb, in groups of consecutive packets for the same queue pair.
//!
//! The segments of a super-packet are mostly for one queue pair, which processes them under one
//! hold of its lock. [`RxBatch`] and [`RxGroup`] share one cursor, which only this file moves.

use super::wire_packet::WirePacket;
use crate::device::counters::Counters;
use crate::net::skb::RxSkb;
use crate::proto::wire::Gid;

/// The packets of one skb that pass the checks below the transport, in order.
pub(crate) struct RxBatch {
    packet: WirePacket,
    /// The next group begins with `packet`; otherwise with the packet after it.
    pending: bool,
    /// There is no packet after `packet`.
    over: bool,
}

impl RxBatch {
    /// The packets of `skb`, before the first one: [`RxBatch::begin`] goes on to that.
    #[inline(always)]
    pub(crate) fn new(skb: RxSkb) -> Self {
        RxBatch {
            packet: WirePacket::new(skb),
            pending: true,
            over: false,
        }
    }

    /// Goes on to the first intact packet; `false` if there is none.
    #[inline(always)]
    pub(crate) fn begin(&mut self, counters: &Counters) -> bool {
        self.packet.first(counters)
    }

    /// The destination address of its packets, if that is one of a multicast group.
    #[inline]
    pub(crate) fn group(&self) -> Option<Gid> {
        Some(Gid::new(self.packet.destination)).filter(|gid| gid.is_multicast())
    }

    /// The packets are going to be processed later than in the RCU section in which they arrived.
    #[cold]
    pub(crate) fn detach(&mut self) {
        self.packet.skb.detach();
    }

    /// The next group. It begins after the last packet that the previous group returned.
    #[inline]
    pub(crate) fn next_group(&mut self, counters: &Counters) -> Option<RxGroup<'_>> {
        if !self.pending && !self.advance(counters) {
            return None;
        }
        self.pending = false;
        Some(RxGroup {
            qpn: self.packet.repr.bth.dest_qp.get(),
            begun: false,
            batch: self,
        })
    }

    /// Moves on to the next intact packet; `false` if there is none.
    #[inline]
    fn advance(&mut self, counters: &Counters) -> bool {
        self.over = self.over || !self.packet.advance(counters);
        !self.over
    }
}

/// Consecutive packets for one queue pair.
pub(crate) struct RxGroup<'a> {
    qpn: u32,
    /// The first packet was returned.
    begun: bool,
    batch: &'a mut RxBatch,
}

impl RxGroup<'_> {
    /// The number of the queue pair.
    #[inline]
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Whether the destination address of its packets is that of a multicast group.
    #[inline]
    pub(crate) fn is_to_group(&self) -> bool {
        Gid::new(self.batch.packet.destination).is_multicast()
    }

    /// The next packet of the group.
    #[inline]
    pub(crate) fn next(&mut self, counters: &Counters) -> Option<&mut WirePacket> {
        if self.begun {
            if !self.batch.advance(counters) {
                return None;
            }
            if self.batch.packet.repr.bth.dest_qp.get() != self.qpn {
                self.batch.pending = true;
                return None;
            }
        }
        self.begun = true;
        Some(&mut self.batch.packet)
    }
}
