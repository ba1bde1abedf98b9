// SPDX-License-Identifier: GPL-2.0

//! From a packet's description to the wire.
//!
//! Consecutive packets of one QP which are equally long travel the network stack as one: a row of datagrams
//! (UDP GSO), each with its own BTH and ICRC. The network segments them where it must, and then gives the
//! datagrams IPv4 identifications from 0 up; their ICRCs cover those.

use super::counters::Count;
use super::parcel::Mail;
use super::path::Path;
use super::Core;
use crate::net::crc::crc32_le;
use crate::net::queue::TxQueue;
use crate::net::skb::{TxSkb, TX_MAX};
use crate::proto::wire::icrc::{Datagram, UDP_LEN};
use crate::proto::wire::{IcrcHead, PacketRepr, ICRC_LEN};
use crate::sync::bh::BhGuard;
use kernel::prelude::*;

/// How many packets are built before they are sent, under one hold of the QP's lock.
const BATCH: usize = 64;

/// Why no packet was built.
pub(crate) enum NoPacket {
    /// No memory now. The packet is due still.
    NoMemory,
    /// No way to the peer now.
    NoRoute,
    /// The payload is not there.
    Payload,
}

/// A row of datagrams to which more may be added.
struct Row<'bh> {
    skb: TxSkb<'bh>,
    /// The length of each datagram but the last, without the headers above.
    each: usize,
    /// The bytes of all so far.
    used: usize,
    count: u16,
}

impl Row<'_> {
    /// Adds a packet at the end. On an error it is as if nothing had been done.
    #[inline]
    fn write(
        &mut self,
        head: &mut IcrcHead,
        len: usize,
        repr: &PacketRepr,
        payload_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Option<()> {
        // None of these lengths is anybody's but ours, so they fit; if not, it is a packet less.
        let end = self.used.checked_add(len)?;
        let out = self.skb.data().get_mut(self.used..end)?;
        let udp_len = u16::try_from(len.checked_add(UDP_LEN)?).ok()?;
        head.set_datagram(Datagram {
            udp_len,
            ip_id: self.count,
        });
        write(out, head, repr, payload_len, fill)?;
        self.used = end;
        self.count = self.count.wrapping_add(1);
        Some(())
    }

    /// Whether there is place for a datagram of `len` bytes.
    #[inline]
    fn takes(&self, len: usize) -> bool {
        len <= self.each && self.used.saturating_add(len) <= self.skb.room()
    }
}

/// Packets that wait until the QP's lock is free: sending may run other parts of the network stack
/// that may come back to us. All are of one QP, and those of a connected QP have one path.
pub(crate) struct Batch<'bh> {
    bh: &'bh BhGuard,
    queue: TxQueue<'bh>,
    row: Option<Row<'bh>>,
    packets: usize,
    /// What needs no packet.
    pub(crate) mail: Mail,
}

impl<'bh> Batch<'bh> {
    /// An empty one.
    #[inline]
    pub(crate) fn new(bh: &'bh BhGuard) -> Self {
        Batch {
            bh,
            queue: TxQueue::new(bh),
            row: None,
            packets: 0,
            mail: Mail::new(),
        }
    }

    /// Whether it is time to send.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.packets >= BATCH || self.mail.is_full()
    }

    /// Whether there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0 && self.mail.is_empty()
    }

    /// Builds a packet with headers `repr` and `payload_len` bytes that `fill` writes, and adds it.
    ///
    /// `more` packets are expected to follow by the same path, equally long, but perhaps the last; it is
    /// an estimate. Where it is 0 this packet may end a row, but begins none.
    #[inline]
    pub(crate) fn add(
        &mut self,
        core: &Core,
        path: &mut Path,
        repr: &PacketRepr,
        payload_len: u32,
        more: u32,
        fill: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<(), NoPacket> {
        let payload_len = payload_len as usize;
        let len = repr.wire_len(payload_len);
        if !self.row.as_ref().is_some_and(|row| row.takes(len)) {
            self.close();
            self.row = Some(self.open(core, path, len, more)?);
        }
        let Some(row) = &mut self.row else {
            return Err(NoPacket::Payload);
        };
        let written = row.write(path.icrc(), len, repr, payload_len, fill);
        if written.is_some() {
            self.packets += 1;
        }
        if row.count == 0 {
            self.row = None;
        } else if len < row.each || !row.takes(1) {
            self.close();
        }
        written.ok_or(NoPacket::Payload)
    }

    /// Begins a row with a packet of `len` bytes, or makes place for just that.
    #[inline]
    fn open(
        &self,
        core: &Core,
        path: &mut Path,
        len: usize,
        more: u32,
    ) -> Result<Row<'bh>, NoPacket> {
        let (route, header) = path.route(&core.port).map_err(|_| {
            core.counters.count(Count::SendErrors);
            NoPacket::NoRoute
        })?;
        let mut memory = Err(ENOMEM);
        if more != 0 && route.takes_rows() {
            let rest = BATCH.saturating_sub(self.packets).max(1);
            let count = (more as usize)
                .saturating_add(1)
                .min(rest)
                .min(TX_MAX / len.max(1));
            memory = TxSkb::alloc(route, len.saturating_mul(count), header, self.bh);
        }
        let skb = memory
            .or_else(|_| TxSkb::alloc(route, len, header, self.bh))
            .map_err(|_| {
                core.counters.count(Count::NoMemory);
                NoPacket::NoMemory
            })?;
        Ok(Row {
            skb,
            each: len,
            used: 0,
            count: 0,
        })
    }

    /// Ends the row, if there is one.
    #[inline]
    fn close(&mut self) {
        if let Some(row) = self.row.take() {
            // It does not fail: the lengths are those that `write` checked.
            let _ = self.queue.push(row.skb, row.used, row.each);
        }
    }

    /// Sends all packets, in order. No lock held.
    ///
    /// A packet that the network drops is as one lost on the way: the retransmit timer sees to it.
    #[inline]
    pub(crate) fn send(&mut self, core: &Core) {
        self.close();
        self.packets = 0;
        let (sent, failed) = self.queue.send();
        core.counters.add(Count::SentPackets, sent);
        core.counters.add(Count::SendErrors, failed);
    }
}

/// Writes headers, payload, pad and ICRC; all of `out`.
#[inline]
fn write(
    out: &mut [u8],
    head: &mut IcrcHead,
    repr: &PacketRepr,
    payload_len: usize,
    fill: impl FnOnce(&mut [u8]) -> Option<()>,
) -> Option<()> {
    let headers = repr.emit(out).ok()?;
    let (payload, rest) = out.get_mut(headers..)?.split_at_mut_checked(payload_len)?;
    if payload_len != 0 {
        fill(payload)?;
    }
    rest.fill(0);
    let end = out.len().checked_sub(ICRC_LEN)?;
    let (packet, place) = out.split_at_mut_checked(end)?;
    place.copy_from_slice(&head.over(crc32_le, packet)?);
    Some(())
}
