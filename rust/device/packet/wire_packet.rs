// SPDX-License-Identifier: GPL-2.0

//! Packets from the wire: headers, ICRC, and the segments of a GSO super-packet.

use crate::device::counters::{Count, Counters, Traffic};
use crate::net::crc::crc32_le;
use crate::net::skb::RxSkb;
use crate::proto::wire::bth::{self, BTH_LEN};
use crate::proto::wire::ip::{DatagramFields, UDP_LEN};
use crate::proto::wire::{Ecn, GrhLayout, IcrcHead, PacketRepr, GRH_LEN, ICRC_LEN, MAX_HEADER_LEN};
use crate::rdma::strided::StridedSrc;
use kernel::prelude::*;

/// Bytes of payload whose ICRC is checked before they are copied, so that the copy finds them in
/// the CPU's cache.
const CACHE_CHUNK: u32 = 32_768;

/// A packet that passed every check below the transport. It may be one segment of a GSO
/// super-packet ([`WirePacket::advance`]), or several segments that differ in PSN, payload and
/// AckReq alone ([`WirePacket::extend`]).
pub(crate) struct WirePacket {
    pub(crate) skb: RxSkb,
    pub(crate) repr: PacketRepr,
    /// Where its payload starts in the datagram.
    pub(crate) payload_at: usize,
    pub(crate) payload_len: u32,
    /// The number of packets; `skb` is at the last one.
    pub(crate) count: u16,
    /// The addresses of the super-packet, as GIDs.
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    /// The ECN field of the super-packet. All packets of it had the same one: GRO merges no others.
    pub(crate) ecn: Ecn,
    /// The part of the ICRC that covers the headers of the super-packet.
    head: IcrcHead,
    /// The IPv4 identification of the super-packet's first segment.
    first_id: u16,
}

impl WirePacket {
    /// The super-packet `skb`, before its first packet: [`WirePacket::first`] goes on to that.
    #[inline(always)]
    pub(crate) fn new(skb: RxSkb) -> Self {
        WirePacket {
            source: skb.source(),
            destination: skb.destination(),
            ecn: Ecn::of_header(skb.ip_header()),
            skb,
            repr: PacketRepr::EMPTY,
            // The compiler stores up to 128 bytes of zeros in a row, and calls memset for more: if
            // these were zero it would, for each packet.
            payload_at: MAX_HEADER_LEN,
            payload_len: 0,
            count: 1,
            head: IcrcHead::EMPTY,
            first_id: 0,
        }
    }

    /// Goes on to the first intact packet of the super-packet; `false` if there is none.
    #[inline(always)]
    pub(crate) fn first(&mut self, counters: &Counters) -> bool {
        let (ip, udp) = (self.skb.ip_header(), self.skb.udp_header());
        if self.head.set(ip, udp).is_err() {
            return false;
        }
        self.first_id = self.head.datagram_fields().ip_id;
        if self.ecn == Ecn::Ce {
            counters.add(Count::CeMarked, self.skb.segments());
        }
        self.find_intact(counters)
    }

    /// Goes on to the next intact packet of the super-packet; `false` if there is none.
    #[inline(always)]
    pub(crate) fn advance(&mut self, counters: &Counters) -> bool {
        self.skb.advance() && self.find_intact(counters)
    }

    /// Goes on to the first packet that is intact, from the one that `skb` is at on.
    fn find_intact(&mut self, counters: &Counters) -> bool {
        while self.read(counters).is_none() {
            if !self.skb.advance() {
                return false;
            }
        }
        true
    }

    /// Reads the headers and checks the ICRC of the packet that `skb` is at; counts it. `None` if
    /// it is dropped.
    #[inline(always)]
    fn read(&mut self, counters: &Counters) -> Option<()> {
        counters.traffic(Traffic::RcvdPackets, 1);
        counters.traffic(Traffic::RcvdBytes, self.skb.len() as u32);
        let mut copy = [0; MAX_HEADER_LEN];
        let headers = self.skb.headers(&mut copy)?;
        match PacketRepr::parse(headers, self.skb.len()) {
            Ok(parsed) => {
                self.repr = parsed.repr;
                self.payload_at = parsed.header_len;
                self.payload_len = parsed.payload_len as u32;
                self.count = 1;
            }
            Err(error) => {
                counters.parse_error(error);
                return None;
            }
        }
        if self.skb.is_gso() {
            // Segmentation counts the identification up by one.
            let id = self.first_id.wrapping_add(self.skb.index());
            self.head.set_datagram_fields(datagram(&self.skb, id)?);
        }
        if self.check_icrc().is_none() && self.retry().is_none() {
            counters.lost(Count::BadIcrc, self.repr.bth.dest_qp.get());
            if self.skb.is_gso() {
                counters.count(Count::BadIcrcGso);
            }
            return None;
        }
        Some(())
    }

    /// Checks the ICRC once more, with the first segment's identification: the packets of a
    /// super-packet may all have had the same one (RFC 6864 allows that) when GRO merged them on
    /// this machine.
    #[cold]
    fn retry(&mut self) -> Option<()> {
        if self.skb.index() == 0 {
            return None;
        }
        let fields = datagram(&self.skb, self.first_id)?;
        self.head.set_datagram_fields(fields);
        self.check_icrc()
    }

    /// Whether the ICRC is right.
    #[inline(always)]
    fn check_icrc(&mut self) -> Option<()> {
        let (skb, head) = (&mut self.skb, &mut self.head);
        if let Some(all) = skb.exclusive() {
            let end = all.len().checked_sub(ICRC_LEN)?;
            let (packet, sent) = all.split_at_mut_checked(end)?;
            return (head.over(crc32_le, packet)? == *sent).then_some(());
        }
        let end = skb.len().checked_sub(ICRC_LEN)?;
        let (mut bth, mut sent) = ([0; BTH_LEN], [0; ICRC_LEN]);
        skb.copy(0, &mut bth).ok()?;
        skb.copy(end, &mut sent).ok()?;
        let mut icrc = head.start(crc32_le, &bth);
        skb.for_each(BTH_LEN, end.checked_sub(BTH_LEN)?, |bytes| {
            icrc.update(bytes)
        })
        .ok()?;
        (sent == icrc.finish()).then_some(())
    }

    /// Coalesces the following packets into this one while they are intact and like it, up to
    /// `limit` packets or a chunk of payload that fits the CPU's cache.
    #[inline]
    pub(crate) fn extend(&mut self, counters: &Counters, limit: u16) {
        let chunk = CACHE_CHUNK.checked_div(self.payload_len).unwrap_or(1);
        let limit = limit.min(u16::try_from(chunk).unwrap_or(limit));
        if limit <= 1 {
            return;
        }
        let more = self.alike(limit.wrapping_sub(1)).unwrap_or(0);
        let bytes = u32::from(more).saturating_mul(self.skb.len() as u32);
        self.skb.skip(more);
        self.count = self.count.saturating_add(more);
        counters.traffic(Traffic::RcvdPackets, more.into());
        counters.traffic(Traffic::RcvdBytes, bytes);
    }

    /// The number of next packets that are intact and like this one, up to `limit`. Adds their
    /// AckReq to this one's.
    #[inline]
    fn alike(&mut self, limit: u16) -> Option<u16> {
        let len = self.skb.len();
        let next = self.first_id.wrapping_add(self.skb.index()).wrapping_add(1);
        let mut segments = self.head.segments(crc32_le, datagram(&self.skb, next)?)?;
        let mut rest = self.skb.exclusive_rest()?.chunks_exact_mut(len.max(1));
        let mut before: [u8; BTH_LEN] = *rest.next()?.first_chunk()?;
        let mut count = 0;
        for datagram in rest.take(limit.into()) {
            let (packet, sent) = datagram.split_last_chunk_mut::<ICRC_LEN>()?;
            let bth: [u8; BTH_LEN] = *packet.first_chunk()?;
            let Some(asks) = bth::following_ack_req(&before, &bth) else {
                break;
            };
            if segments.over(crc32_le, packet)? != *sent {
                break;
            }
            self.repr.bth.ack_req |= asks;
            before = bth;
            count += 1;
        }
        Some(count)
    }

    /// The GRH area of a datagram: the 40 bytes in front of its payload in the receive buffer
    /// (annex A17.4.5.2). A segment has the IP header of its super-packet, with its own length and
    /// identification.
    #[inline]
    pub(crate) fn grh_area(&self) -> Option<[u8; GRH_LEN]> {
        let header = self.skb.ip_header();
        if !self.skb.is_gso() {
            return GrhLayout::area(header);
        }
        let id = self.first_id.wrapping_add(self.skb.index());
        GrhLayout::area_of(header, datagram(&self.skb, id)?)
    }

    /// Calls `each` with the payload of all packets, chunk by chunk: its offset in the payload, and
    /// its bytes.
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        mut each: impl FnMut(u32, StridedSrc<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(bytes) = self.linear_payload() {
            return each(0, bytes);
        }
        let mut offset = 0_u32;
        let mut result = Ok(());
        let walked = self
            .skb
            .for_each(self.payload_at, self.payload_len as usize, |bytes| {
                if result.is_ok() {
                    result = each(offset, StridedSrc::new(bytes));
                    offset = offset.wrapping_add(bytes.len() as u32);
                }
            });
        // The payload is inside the packet: its length was checked.
        let _ = walked;
        result
    }

    /// The payload of all packets, if it is linear in memory. That of coalesced packets always is.
    #[inline]
    fn linear_payload(&self) -> Option<StridedSrc<'_>> {
        let all = self.skb.linear_from(self.count.checked_sub(1)?)?;
        StridedSrc::strided(
            all.get(self.payload_at..)?,
            self.payload_len as usize,
            self.skb.len(),
            self.count.into(),
        )
    }
}

/// Length and IPv4 identification of the segment that `skb` is at.
#[inline]
fn datagram(skb: &RxSkb, ip_id: u16) -> Option<DatagramFields> {
    let udp_len = u16::try_from(skb.len().checked_add(UDP_LEN)?).ok()?;
    Some(DatagramFields { udp_len, ip_id })
}
