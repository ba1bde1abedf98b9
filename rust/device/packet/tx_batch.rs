// SPDX-License-Identifier: GPL-2.0

//! Transmission: from packet descriptions to skbs.
//!
//! Consecutive packets of one QP with the same length cross the network stack as one GSO
//! super-packet (UDP GSO), each segment with its own BTH and ICRC. Segmentation, in software or in
//! the NIC, gives segment i the IPv4 identification of the first plus i; the ICRC of each segment
//! covers that.

use super::loopback::LoopbackQueue;
use super::path::Path;
use crate::device::counters::Count;
use crate::device::Core;
use crate::net::crc::crc32_le;
use crate::net::queue::TxQueue;
use crate::net::room::{Room, RoomHandler};
use crate::net::skb::{TxSkb, TX_MAX};
use crate::proto::wire::bth::{self, BTH_LEN};
use crate::proto::wire::icrc::{Datagram, UDP_LEN};
use crate::proto::wire::{IcrcHead, PacketRepr, ICRC_LEN};
use crate::rdma::strided::StridedDst;
use crate::sync::bh::BhGuard;
use core::cmp::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Packets that are built under one hold of the QP's lock before they are sent. A super-packet that
/// is begun is filled; with segments of 1 KiB it has 61.
const BATCH: usize = 60;

/// Bytes of payload that are copied before their ICRC is computed, so that the ICRC finds them in
/// the CPU's cache.
const CACHE_CHUNK: u32 = 32_768;

/// Why no packet was built.
pub(crate) enum NoPacket {
    /// No memory now. The packet is due still.
    NoMemory,
    /// No way to the peer now.
    NoRoute,
    /// The payload is not there.
    Payload,
}

/// Packets were not built.
pub(crate) struct Unsent {
    pub(crate) why: NoPacket,
    /// The first so many of them were.
    pub(crate) done: u16,
}

/// Packets to be built.
pub(crate) struct Packets<'a> {
    /// The headers of the first; those after it have the PSNs that follow, and only the last has
    /// its AckReq.
    pub(crate) repr: &'a PacketRepr,
    pub(crate) count: u16,
    /// The bytes of payload of each.
    pub(crate) segment_size: u32,
    /// How many are expected to follow by the same path, equally long but perhaps the last. An
    /// estimate; where it is 0 the last of these may end a super-packet, but begins none.
    pub(crate) more: u32,
}

impl<'a> Packets<'a> {
    /// A packet with `len` bytes of payload that stands alone.
    #[inline]
    pub(crate) fn one(repr: &'a PacketRepr, len: u32) -> Self {
        Packets {
            repr,
            count: 1,
            segment_size: len,
            more: 0,
        }
    }

    /// How many packets are copied at once, after the first `done`: as many as the CPU's cache
    /// holds.
    #[inline]
    fn cache_chunk(&self, done: u16) -> u16 {
        let left = self.count.saturating_sub(done);
        if left <= 1 {
            return left;
        }
        let packets = CACHE_CHUNK
            .checked_div(self.segment_size)
            .unwrap_or(CACHE_CHUNK)
            .max(1);
        u16::try_from(packets).unwrap_or(left).min(left)
    }
}

/// Full packets, and how many of them make a super-packet.
pub(crate) struct Whole {
    /// The length of each, from its BTH on.
    len: usize,
    /// Segments of a full super-packet.
    count: u16,
}

impl Whole {
    /// Of packets with `pmtu` bytes of payload and no more headers than a BTH.
    #[inline]
    pub(crate) fn of(pmtu: u32) -> Self {
        let len = BTH_LEN
            .saturating_add(pmtu as usize)
            .saturating_add(ICRC_LEN);
        let count = TX_MAX.checked_div(len).map_or(1, |count| count as u16);
        Whole {
            len,
            count: count.max(1),
        }
    }
}

/// A GSO super-packet to which segments may be added.
struct GsoBuilder<'bh> {
    skb: TxSkb<'bh>,
    /// The length of each segment but the last, from the BTH on.
    segment_size: usize,
    /// The bytes of all so far.
    used: usize,
}

impl GsoBuilder<'_> {
    /// Adds `count` of `packets` at the end, after `done` of them, each a datagram of `len` bytes;
    /// `fill` writes their payload. On an error it is as if nothing had been done.
    #[inline]
    fn write(
        &mut self,
        path: &mut Path,
        len: usize,
        packets: &Packets<'_>,
        (done, count): (u16, u16),
        fill: impl FnOnce(&mut StridedDst<'_>) -> Option<()>,
    ) -> Option<()> {
        // None of these lengths is anybody's but ours, so they fit; if not, it is a packet less.
        let end = self
            .used
            .checked_add(len.checked_mul(usize::from(count))?)?;
        let out = self.skb.data().get_mut(self.used..end)?;
        let segment_size = packets.segment_size as usize;
        if segment_size != 0 {
            fill(&mut StridedDst::new(
                out,
                packets.repr.header_len(),
                segment_size,
                len,
            ))?;
        }
        let udp_len = u16::try_from(len.checked_add(UDP_LEN)?).ok()?;
        let first = Datagram {
            udp_len,
            ip_id: path.next_id(),
        };
        let head = path.icrc();
        if count == 1 && packets.count == 1 {
            head.set_datagram(first);
            complete(out, head, packets.repr, segment_size)?;
        } else {
            complete_segments(out, len, head, first, packets, done)?;
        }
        path.used_ids(count);
        self.used = end;
        Some(())
    }

    /// How many datagrams of `len` bytes there is place for. A shorter one is the super-packet's
    /// last.
    #[inline]
    fn takes(&self, len: usize) -> u16 {
        let left = self.skb.room().saturating_sub(self.used);
        match len.cmp(&self.segment_size) {
            Ordering::Less => (len <= left).into(),
            Ordering::Equal => {
                let count = left.checked_div(len).unwrap_or(0);
                u16::try_from(count).unwrap_or(u16::MAX)
            }
            Ordering::Greater => 0,
        }
    }

    /// Whether nothing more goes into it.
    #[inline]
    fn is_full(&self) -> bool {
        self.used >= self.skb.room()
    }
}

/// Packets that wait until the QP's lock is free: sending may run other parts of the network stack
/// that may come back to us. All are of one QP, and those of a connected QP have one path.
pub(crate) struct Batch<'bh, Q: RoomHandler> {
    bh: &'bh BhGuard,
    owner: &'bh Arc<Q>,
    room: &'bh Room<Q>,
    queue: TxQueue<'bh>,
    gso: Option<GsoBuilder<'bh>>,
    packets: usize,
    /// What needs no packet.
    pub(crate) loopback: LoopbackQueue,
}

impl<'bh, Q: RoomHandler> Batch<'bh, Q> {
    /// An empty one of `owner`, whose packets take `room`.
    #[inline]
    pub(crate) fn new(bh: &'bh BhGuard, owner: &'bh Arc<Q>, room: &'bh Room<Q>) -> Self {
        Batch {
            bh,
            owner,
            room,
            queue: TxQueue::new(bh),
            gso: None,
            packets: 0,
            loopback: LoopbackQueue::new(),
        }
    }

    /// Whether it is time to send.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.packets >= BATCH && self.gso.is_none() || self.loopback.is_full()
    }

    /// Whether the owner has to wait until some of its packets have left the network stack: it is
    /// told then. A super-packet that is begun is filled.
    #[inline]
    pub(crate) fn must_wait(&self) -> bool {
        self.gso.is_none() && !self.room.is_left() && self.room.wait(self.owner)
    }

    /// How many of the packets that `whole` is about go into the super-packet, or a new one.
    #[inline]
    pub(crate) fn room(&self, whole: &Whole) -> u16 {
        match self.gso.as_ref().map_or(0, |gso| gso.takes(whole.len)) {
            0 => whole.count,
            open => open,
        }
    }

    /// Whether there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0 && self.loopback.is_empty()
    }

    /// Counts a packet that is not sent, so that there is an end to many of them too.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    /// Builds packets and adds them. `fill` writes payload: so many bytes, after so many of all
    /// packets'.
    #[inline]
    pub(crate) fn add(
        &mut self,
        core: &Core,
        path: &mut Path,
        packets: &Packets<'_>,
        mut fill: impl FnMut(u32, usize, &mut StridedDst<'_>) -> Option<()>,
    ) -> Result<(), Unsent> {
        let segment_size = packets.segment_size as usize;
        let len = packets.repr.wire_len(segment_size);
        let mut done = 0_u16;
        while done < packets.count {
            let mut left = self.gso.as_ref().map_or(0, |gso| gso.takes(len));
            if left == 0 {
                self.close();
                let follow = packets.count.wrapping_sub(done).wrapping_sub(1);
                let more = packets.more.saturating_add(follow.into());
                let gso = self.open(core, path, len, more);
                let gso = gso.map_err(|why| Unsent { why, done })?;
                left = gso.takes(len);
                self.gso = Some(gso);
            }
            let unsent = Unsent {
                why: NoPacket::Payload,
                done,
            };
            let Some(gso) = &mut self.gso else {
                return Err(unsent);
            };
            let count = packets.cache_chunk(done).min(left);
            let offset = packets.segment_size.wrapping_mul(done.into());
            let bytes = segment_size.wrapping_mul(count.into());
            let written = gso.write(path, len, packets, (done, count), |out| {
                fill(offset, bytes, out)
            });
            if written.is_none() {
                if gso.used == 0 {
                    self.gso = None;
                }
                return Err(unsent);
            }
            if len < gso.segment_size || gso.is_full() {
                self.close();
            }
            self.packets = self.packets.saturating_add(count.into());
            done = done.saturating_add(count);
        }
        Ok(())
    }

    /// Begins a super-packet with a packet of `len` bytes, or makes place for just that.
    #[inline]
    fn open(
        &self,
        core: &Core,
        path: &mut Path,
        len: usize,
        more: u32,
    ) -> Result<GsoBuilder<'bh>, NoPacket> {
        let (route, header) = path.route(&core.port).map_err(|_| {
            core.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        let mut memory = Err(ENOMEM);
        if more != 0 && route.supports_udp_gso() && crate::parameters::segmentation() {
            let count = (more as usize).saturating_add(1).min(TX_MAX / len.max(1));
            memory = TxSkb::alloc(route, len.saturating_mul(count), header, self.bh);
        }
        let mut skb = memory
            .or_else(|_| TxSkb::alloc(route, len, header, self.bh))
            .map_err(|_| {
                core.counters.count(Count::NoMemory);
                NoPacket::NoMemory
            })?;
        skb.take_room(self.room);
        Ok(GsoBuilder {
            skb,
            segment_size: len,
            used: 0,
        })
    }

    /// Ends the super-packet, if there is one.
    #[inline]
    fn close(&mut self) {
        if let Some(gso) = self.gso.take() {
            // It does not fail: the lengths are those that `write` checked.
            let _ = self.queue.push(gso.skb, gso.used, gso.segment_size);
        }
    }

    /// Sends all packets, in order. No lock held.
    ///
    /// A packet that the network drops is as one lost on the way: the retransmit timer sees to it.
    /// Says whether there were some.
    #[inline]
    pub(crate) fn send(&mut self, core: &Core) -> bool {
        self.close();
        let any = self.packets != 0;
        self.packets = 0;
        let (sent, failed) = self.queue.send();
        core.counters.add(Count::SentPackets, sent);
        core.counters.add(Count::SendErrors, failed);
        any
    }
}

/// Writes BTH and ICRC of the segments of `packets` after the first `done`.
#[inline]
fn complete_segments(
    out: &mut [u8],
    len: usize,
    head: &mut IcrcHead,
    first: Datagram,
    packets: &Packets<'_>,
    done: u16,
) -> Option<()> {
    let mut bth = [0; BTH_LEN];
    packets.repr.emit(&mut bth).ok()?;
    let mut segments = head.segments(crc32_le, first)?;
    let mut psn = packets.repr.bth.psn.add(done.into());
    let mut left = packets.count.wrapping_sub(done);
    for packet in out.chunks_exact_mut(len.max(1)) {
        let (packet, place) = packet.split_last_chunk_mut::<ICRC_LEN>()?;
        bth::set_psn(&mut bth, psn, packets.repr.bth.ack_req && left == 1);
        *packet.first_chunk_mut()? = bth;
        *place = segments.over(crc32_le, packet)?;
        psn = psn.next();
        left = left.wrapping_sub(1);
    }
    Some(())
}

/// Writes what surrounds the payload: headers, pad and ICRC.
#[inline]
fn complete(
    out: &mut [u8],
    head: &mut IcrcHead,
    repr: &PacketRepr,
    payload_len: usize,
) -> Option<()> {
    let headers = repr.emit(out).ok()?;
    let end = out.len().checked_sub(ICRC_LEN)?;
    let (packet, place) = out.split_at_mut_checked(end)?;
    packet.get_mut(headers.checked_add(payload_len)?..)?.fill(0);
    place.copy_from_slice(&head.over(crc32_le, packet)?);
    Some(())
}
