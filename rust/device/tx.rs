// SPDX-License-Identifier: GPL-2.0

//! From a packet's description to the wire.

use super::counters::Count;
use super::path::Path;
use super::Core;
use crate::net::crc::crc32_le;
use crate::net::route::{Header, Route, XmitStatus};
use crate::net::skb::TxSkb;
use crate::proto::wire::bth::BTH_LEN;
use crate::proto::wire::{IcrcHead, PacketRepr, ICRC_LEN};
use kernel::prelude::*;

/// How many packets are built before they are sent, under one hold of the QP's lock.
pub(crate) const BATCH: usize = 16;

/// Why no packet was built.
pub(crate) enum NoPacket {
    /// No memory now. The packet is due still.
    NoMemory,
    /// No way to the peer now.
    NoRoute,
    /// The payload is not there.
    Payload,
}

/// A packet that is ready to go.
struct Ready {
    skb: TxSkb,
    route: Route,
    header: Header,
}

/// Packets that wait until the QP's lock is free: sending may run other parts of the network stack
/// that may come back to us.
pub(crate) struct Batch {
    packets: [Option<Ready>; BATCH],
    len: usize,
}

impl Batch {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Batch { packets: [const { None }; BATCH], len: 0 }
    }

    /// Whether there is no room for more.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= BATCH
    }

    /// Whether there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Builds a packet with headers `repr` and `payload_len` bytes that `fill` writes, and adds it.
    ///
    /// Bottom halves off.
    #[inline]
    pub(crate) fn add(
        &mut self,
        core: &Core,
        path: &mut Path,
        repr: &PacketRepr,
        payload_len: u32,
        fill: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<(), NoPacket> {
        let Some(place) = self.packets.get_mut(self.len) else {
            return Err(NoPacket::NoMemory);
        };
        let route = path.route(&core.port).map_err(|_| {
            core.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        let route = route.clone();
        let len = repr.wire_len(payload_len as usize);
        let header = path.flow().header(len).ok_or(NoPacket::Payload)?;
        let mut skb = TxSkb::alloc(&route, len).map_err(|_| {
            core.counters.count(Count::NoMemory);
            NoPacket::NoMemory
        })?;
        write(skb.data(), &header, repr, payload_len as usize, fill)?;
        *place = Some(Ready { skb, route, header });
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Sends all, in order. No lock held, bottom halves off.
    ///
    /// A packet that the network drops is as one lost on the way: the retransmit timer sees to it.
    #[inline]
    pub(crate) fn send(&mut self, core: &Core) {
        for place in self.packets.iter_mut().take(self.len) {
            let Some(Ready { skb, route, header }) = place.take() else {
                continue;
            };
            match route.send(skb, &header) {
                XmitStatus::Sent => core.counters.count(Count::SentPackets),
                XmitStatus::Congested | XmitStatus::Failed(_) => core.counters.count(Count::SendErrors),
            }
        }
        self.len = 0;
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
    let (payload, rest) = body.split_at_mut_checked(payload_len).ok_or(NoPacket::Payload)?;
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
