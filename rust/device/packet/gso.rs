// SPDX-License-Identifier: GPL-2.0

//! GSO super-packets: writes the segments of one into one skb.
//!
//! Consecutive packets of one QP with the same length cross the network stack as one GSO
//! super-packet (UDP GSO), each segment with its own BTH and ICRC. Segmentation, in software or in
//! the NIC, gives segment i the IPv4 identification of the first plus i; the ICRC of each segment
//! covers that.

use super::path::Path;
use crate::device::mem::error::MemError;
use crate::net::crc::crc32_le;
use crate::net::queue::TxQueue;
use crate::net::skb::{TxSkb, TX_MAX};
use crate::proto::wire::bth::{self, BTH_LEN};
use crate::proto::wire::ip::{DatagramFields, UDP_LEN};
use crate::proto::wire::{IcrcHead, PacketRepr, ICRC_LEN};
use crate::rdma::strided::StridedDst;
use core::cmp::Ordering;
use kernel::prelude::*;

/// Bytes of payload that are copied before their ICRC is computed, so that the ICRC finds them in
/// the CPU's cache.
const CACHE_CHUNK: u32 = 32_768;

/// Packets to be built.
pub(crate) struct Packets<'a> {
    /// The headers of the first packet. The packets after it have the PSNs that follow. Only the
    /// last packet has the AckReq of `repr`.
    pub(crate) repr: &'a PacketRepr,
    pub(crate) count: u16,
    /// The bytes of payload of each packet.
    pub(crate) segment_size: u32,
}

impl<'a> Packets<'a> {
    /// A single packet with `len` bytes of payload.
    #[inline]
    pub(crate) fn one(repr: &'a PacketRepr, len: u32) -> Self {
        Packets {
            repr,
            count: 1,
            segment_size: len,
        }
    }

    /// How many packets to copy at once, after the first `done`: as many as fit in the CPU's cache.
    #[inline]
    pub(super) fn cache_chunk(&self, done: u16) -> u16 {
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

/// Packets with a full payload, and how many of them make a super-packet.
pub(crate) struct Whole {
    /// The length of each packet, from its BTH on.
    pub(super) len: usize,
    /// The number of segments of a full super-packet.
    pub(super) count: u16,
}

impl Whole {
    /// For packets with `pmtu` bytes of payload and no headers but a BTH.
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
pub(super) struct GsoBuilder<'bh> {
    skb: TxSkb<'bh>,
    /// The length of each segment but the last, from the BTH on.
    segment_size: usize,
    /// The bytes of all segments so far.
    used: usize,
}

impl<'bh> GsoBuilder<'bh> {
    /// An empty super-packet in `skb`. All segments but the last will have `segment_size` bytes
    /// from the BTH on.
    #[inline]
    pub(super) fn new(skb: TxSkb<'bh>, segment_size: usize) -> Self {
        GsoBuilder {
            skb,
            segment_size,
            used: 0,
        }
    }

    /// Passes the super-packet to `queue`.
    #[inline]
    pub(super) fn push_to(self, queue: &mut TxQueue<'bh>) {
        // This does not fail: `write` checked the lengths.
        let _ = queue.push(self.skb, self.used, self.segment_size);
    }

    /// Adds `count` of `packets` at the end, after `done` of them, each a datagram of `len` bytes;
    /// `fill` writes their payload. On an error the super-packet is unchanged.
    #[inline]
    pub(super) fn write(
        &mut self,
        path: &mut Path,
        len: usize,
        packets: &Packets<'_>,
        (done, count): (u16, u16),
        fill: impl FnOnce(&mut StridedDst<'_>) -> Result<(), MemError>,
    ) -> Result<(), MemError> {
        // All of these lengths are the driver's own, so they fit. If not, the packet is not built.
        let end = len
            .checked_mul(usize::from(count))
            .and_then(|bytes| self.used.checked_add(bytes))
            .ok_or(MemError::Bounds)?;
        let out = self.skb.data().get_mut(self.used..end);
        let out = out.ok_or(MemError::Bounds)?;
        let (first, segment_size) = (packets.repr.header_len(), packets.segment_size as usize);
        if segment_size != 0 {
            fill(&mut StridedDst::new(out, first, segment_size, len))?;
        }
        emit(out, path, len, packets, (done, count)).ok_or(MemError::Bounds)?;
        path.used_ids(count);
        self.used = end;
        Ok(())
    }

    /// How many datagrams of `len` bytes fit. One that is shorter than `segment_size` ends the
    /// super-packet.
    #[inline]
    pub(super) fn takes(&self, len: usize) -> u16 {
        let left = self.skb.tailroom().saturating_sub(self.used);
        match len.cmp(&self.segment_size) {
            Ordering::Less => (len <= left).into(),
            Ordering::Equal => {
                let count = left.checked_div(len).unwrap_or(0);
                u16::try_from(count).unwrap_or(u16::MAX)
            }
            Ordering::Greater => 0,
        }
    }

    /// Whether it has no segment.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether a datagram of `len` bytes, the last one written, has completed the super-packet.
    #[inline]
    pub(super) fn ends_with(&self, len: usize) -> bool {
        len < self.segment_size || self.used >= self.skb.tailroom()
    }
}

/// Writes the headers and ICRCs around the payload of `count` of `packets`, after `done` of them.
#[inline]
fn emit(
    out: &mut [u8],
    path: &mut Path,
    len: usize,
    packets: &Packets<'_>,
    (done, count): (u16, u16),
) -> Option<()> {
    let first = DatagramFields {
        udp_len: u16::try_from(len.checked_add(UDP_LEN)?).ok()?,
        ip_id: path.next_id(),
    };
    let head = path.icrc();
    if count == 1 && packets.count == 1 {
        head.set_datagram_fields(first);
        emit_packet(out, head, packets.repr, packets.segment_size as usize)
    } else {
        emit_segments(out, len, head, first, packets, done)
    }
}

/// Writes BTH and ICRC of the segments of `packets` after the first `done`.
#[inline]
fn emit_segments(
    out: &mut [u8],
    len: usize,
    head: &mut IcrcHead,
    first: DatagramFields,
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

/// Writes headers, pad and ICRC around the payload.
#[inline]
fn emit_packet(
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
