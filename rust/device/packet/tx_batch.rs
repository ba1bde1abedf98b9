// SPDX-License-Identifier: GPL-2.0

//! Batches: packets that are built under one hold of the QP's lock and sent without it.

use super::gso::{GsoBuilder, Packets, Whole};
use super::loopback::LoopbackQueue;
use super::path::Path;
use crate::device::counters::{Count, Traffic};
use crate::device::mem::error::MemError;
use crate::device::port::Port;
use crate::net::queue::{Sent, TxQueue};
use crate::net::skb::{TxSkb, TX_MAX};
use crate::net::tx_limit::{TxLimit, TxLimitHandler};
use crate::proto::wire::PacketRepr;
use crate::rdma::strided::StridedDst;
use crate::sync::bh::BhGuard;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The number of packets from which on a batch is full. A super-packet that is begun is still
/// filled; with segments of 1 KiB it has 61.
const BATCH: usize = 60;

/// Why no packet was built.
pub(crate) enum NoPacket {
    /// No memory now. The packet is still due.
    NoMemory,
    /// No route to the peer now.
    NoRoute,
    /// The payload cannot be read.
    Payload(MemError),
}

/// Packets were not built.
pub(crate) struct Unsent {
    pub(crate) why: NoPacket,
    /// The number of packets before these that were built.
    pub(crate) done: u16,
}

/// Packets that are sent when the QP's lock is released: sending may run other parts of the network
/// stack, which may call the driver again. All packets are of one QP. Those of a connected QP have
/// one path.
pub(crate) struct Batch<'bh, Q: TxLimitHandler> {
    bh: &'bh BhGuard,
    owner: &'bh Arc<Q>,
    limit: &'bh TxLimit<Q>,
    queue: TxQueue<'bh>,
    gso: Option<GsoBuilder<'bh>>,
    packets: usize,
    /// Loopback packets.
    pub(crate) loopback: LoopbackQueue,
}

impl<'bh, Q: TxLimitHandler> Batch<'bh, Q> {
    /// An empty batch of `owner`, whose packets are charged to `limit`.
    #[inline]
    pub(crate) fn new(bh: &'bh BhGuard, owner: &'bh Arc<Q>, limit: &'bh TxLimit<Q>) -> Self {
        Batch {
            bh,
            owner,
            limit,
            queue: TxQueue::new(bh),
            gso: None,
            packets: 0,
            loopback: LoopbackQueue::new(),
        }
    }

    /// Whether the batch is full and must be sent.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.packets >= BATCH && self.gso.is_none() || self.loopback.is_full()
    }

    /// Whether the owner has to wait until some of its packets have left the network stack. If so,
    /// it is notified then. A super-packet that is begun is still filled.
    #[inline]
    pub(crate) fn must_wait(&self) -> bool {
        self.gso.is_none() && !self.limit.is_below() && self.limit.wait(self.owner)
    }

    /// How many packets like those of `whole` fit into the super-packet, or into a new one if it
    /// has no room.
    #[inline]
    pub(crate) fn remaining(&self, whole: &Whole) -> u16 {
        match self.gso.as_ref().map_or(0, |gso| gso.takes(whole.len)) {
            0 => whole.count,
            open => open,
        }
    }

    /// Has packets that are added from now on, of `path`, be ECN-capable or not. A super-packet has
    /// one IP header: one that is begun is ended where that changes.
    #[inline]
    pub(crate) fn set_ecn_capable(&mut self, path: &mut Path, capable: bool) {
        if path.is_ecn_capable() != capable {
            self.close();
            path.set_ecn_capable(capable);
        }
    }

    /// Whether there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0 && self.loopback.is_empty()
    }

    /// Counts a packet that is not sent, so that a batch of such packets ends, too.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    /// Builds packets and adds them. `more` returns how many packets are expected to follow on the
    /// same path, of the same length except perhaps the last. It is an estimate, and asked for
    /// where a super-packet may begin. If it is 0, the last of these packets may end one, but
    /// begins none. `fill(offset, len, out)` writes `len` bytes of payload to `out`, from byte
    /// `offset` of the payload of all packets on.
    #[inline]
    pub(crate) fn add(
        &mut self,
        port: &Port,
        path: &mut Path,
        packets: &Packets<'_>,
        more: impl Fn() -> u32,
        mut fill: impl FnMut(u32, usize, &mut StridedDst<'_>) -> Result<(), MemError>,
    ) -> Result<(), Unsent> {
        let segment_size = packets.segment_size as usize;
        let len = packets.repr.wire_len(segment_size);
        let mut done = 0_u16;
        while done < packets.count {
            let mut left = self.gso.as_ref().map_or(0, |gso| gso.takes(len));
            if left == 0 {
                self.close();
                let follow = packets.count.wrapping_sub(done).wrapping_sub(1);
                let more = more().saturating_add(follow.into());
                let gso = self.open(port, path, len, more);
                let gso = gso.map_err(|why| Unsent { why, done })?;
                left = gso.takes(len);
                self.gso = Some(gso);
            }
            let unsent = |why| Unsent {
                why: NoPacket::Payload(why),
                done,
            };
            let gso = self.gso.as_mut().ok_or(unsent(MemError::Bounds))?;
            let count = packets.cache_chunk(done).min(left);
            let offset = packets.segment_size.wrapping_mul(done.into());
            let bytes = segment_size.wrapping_mul(count.into());
            let written = gso.write(path, len, packets, (done, count), |out| {
                fill(offset, bytes, out)
            });
            if let Err(why) = written {
                if gso.is_empty() {
                    self.gso = None;
                }
                return Err(unsent(why));
            }
            if gso.ends_with(len) {
                self.close();
            }
            self.packets = self.packets.saturating_add(count.into());
            done = done.saturating_add(count);
        }
        Ok(())
    }

    /// Builds a packet without payload, by itself, and adds it. It does not wait for its owner's
    /// limit.
    #[cold]
    pub(crate) fn add_single(
        &mut self,
        port: &Port,
        path: &mut Path,
        header: &PacketRepr,
    ) -> Result<(), NoPacket> {
        self.close();
        let packets = Packets::one(header, 0);
        let built = self.add(port, path, &packets, || 0, |_, _, _| Ok(()));
        built.map_err(|unsent| unsent.why)
    }

    /// Begins a super-packet whose first packet has `len` bytes, or allocates room for that packet
    /// alone.
    #[inline]
    fn open(
        &self,
        port: &Port,
        path: &mut Path,
        len: usize,
        more: u32,
    ) -> Result<GsoBuilder<'bh>, NoPacket> {
        let (route, header) = path.route(port).map_err(|_| {
            port.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        let mut memory = Err(ENOMEM);
        // As `Path::uses_gso` has it.
        if more != 0 && route.supports_udp_gso() && port.settings().segmentation {
            let count = (more as usize).saturating_add(1).min(TX_MAX / len.max(1));
            memory = TxSkb::alloc(
                route,
                len.saturating_mul(count),
                header,
                self.limit,
                self.bh,
            );
        }
        let skb = memory
            .or_else(|_| TxSkb::alloc(route, len, header, self.limit, self.bh))
            .map_err(|_| {
                port.counters.count(Count::NoMemory);
                NoPacket::NoMemory
            })?;
        Ok(GsoBuilder::new(skb, len))
    }

    /// Ends the super-packet, if there is one.
    #[inline]
    fn close(&mut self) {
        if let Some(gso) = self.gso.take() {
            gso.push_to(&mut self.queue);
        }
    }

    /// Sends all packets, in order. No lock held.
    ///
    /// A packet that the network stack drops counts as lost on the wire: the retransmission timer
    /// recovers it. Returns whether there were any packets, and how many were sent.
    // The engine's call is on the path of each message; the other one, for CNPs, is rare.
    #[inline(always)]
    pub(crate) fn send(&mut self, port: &Port) -> (bool, Sent) {
        self.close();
        let any = self.packets != 0;
        self.packets = 0;
        let sent = self.queue.send();
        port.counters.traffic(Traffic::SentPackets, sent.packets);
        port.counters.traffic(Traffic::SentBytes, sent.bytes);
        port.counters.add(Count::SendErrors, sent.failed);
        (any, sent)
    }
}
