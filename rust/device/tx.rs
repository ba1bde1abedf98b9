// SPDX-License-Identifier: GPL-2.0

//! From a packet's description to the wire.

use super::counters::Count;
use super::path::Path;
use super::Core;
use crate::net::crc::crc32_le;
use crate::net::queue::TxQueue;
use crate::net::route::Header;
use crate::net::skb::TxSkb;
use crate::proto::wire::bth::BTH_LEN;
use crate::proto::wire::{IcrcHead, PacketRepr, ICRC_LEN};
use crate::sync::bh::BhGuard;
use kernel::prelude::*;

/// How many packets are built before they are sent, under one hold of the QP's lock.
const BATCH: usize = 32;

/// Why no packet was built.
pub(crate) enum NoPacket {
    /// No memory now. The packet is due still.
    NoMemory,
    /// No way to the peer now.
    NoRoute,
    /// The payload is not there.
    Payload,
}

/// Packets that wait until the QP's lock is free: sending may run other parts of the network stack
/// that may come back to us.
pub(crate) struct Batch<'bh> {
    bh: &'bh BhGuard,
    queue: TxQueue<'bh>,
}

impl<'bh> Batch<'bh> {
    /// An empty one.
    #[inline]
    pub(crate) fn new(bh: &'bh BhGuard) -> Self {
        Batch {
            bh,
            queue: TxQueue::new(bh),
        }
    }

    /// Whether it is time to send.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= BATCH
    }

    /// Whether there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }

    /// Builds a packet with headers `repr` and `payload_len` bytes that `fill` writes, and adds it.
    ///
    #[inline]
    pub(crate) fn add(
        &mut self,
        core: &Core,
        path: &mut Path,
        repr: &PacketRepr,
        payload_len: u32,
        fill: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<(), NoPacket> {
        let len = repr.wire_len(payload_len as usize);
        let header = path.flow().header(len).ok_or(NoPacket::Payload)?;
        let route = path.route(&core.port).map_err(|_| {
            core.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        let mut skb = TxSkb::alloc(route, len, self.bh).map_err(|_| {
            core.counters.count(Count::NoMemory);
            NoPacket::NoMemory
        })?;
        write(skb.data(), &header, repr, payload_len as usize, fill)?;
        self.queue
            .push(skb, route, &header)
            .map_err(|_| NoPacket::NoRoute)
    }

    /// Sends all, in order. No lock held.
    ///
    /// A packet that the network drops is as one lost on the way: the retransmit timer sees to it.
    #[inline]
    pub(crate) fn send(&mut self, core: &Core) {
        let (sent, failed) = self.queue.send();
        core.counters.add(Count::SentPackets, sent);
        core.counters.add(Count::SendErrors, failed);
    }
}

/// Writes headers, payload, pad and ICRC; all of `out`.
#[inline]
fn write(
    out: &mut [u8],
    header: &Header,
    repr: &PacketRepr,
    payload_len: usize,
    fill: impl FnOnce(&mut [u8]) -> Option<()>,
) -> Result<(), NoPacket> {
    // None of these lengths is anybody's but ours, so they fit; if not, it is a packet less.
    let headers = repr.emit(out).map_err(|_| NoPacket::Payload)?;
    let body = out.get_mut(headers..).ok_or(NoPacket::Payload)?;
    let (payload, rest) = body
        .split_at_mut_checked(payload_len)
        .ok_or(NoPacket::Payload)?;
    if payload_len != 0 {
        fill(payload).ok_or(NoPacket::Payload)?;
    }
    rest.fill(0);
    let end = out.len().checked_sub(ICRC_LEN).ok_or(NoPacket::Payload)?;
    let (packet, icrc) = out.split_at_mut_checked(end).ok_or(NoPacket::Payload)?;
    let value = icrc_of(header, packet).ok_or(NoPacket::Payload)?;
    icrc.copy_from_slice(&value);
    Ok(())
}

/// The ICRC of a packet that is in one piece from the BTH to the pad.
#[inline]
fn icrc_of(header: &Header, packet: &[u8]) -> Option<[u8; ICRC_LEN]> {
    let (ip, udp) = header.as_bytes().split_last_chunk()?;
    let (bth, rest) = packet.split_first_chunk::<BTH_LEN>()?;
    let mut icrc = IcrcHead::ip(ip, udp).ok()?.start(crc32_le, bth);
    icrc.update(rest);
    Some(icrc.finish())
}
