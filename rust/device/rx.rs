// SPDX-License-Identifier: GPL-2.0

//! From the socket to the QP: which device, which packet, intact, which QP.

use super::counters::Count;
use super::engine::{self, Input};
use super::path::ROCE_PORT;
use super::Core;
use crate::net::crc::crc32_le;
use crate::net::lookup;
use crate::net::netdev::NetDevice;
use crate::net::skb::RxSkb;
use crate::net::udp::Receiver;
use crate::proto::wire::bth::BTH_LEN;
use crate::proto::wire::icrc::{Datagram, UDP_LEN};
use crate::proto::wire::{IcrcHead, PacketRepr, Parsed, ICRC_LEN, MAX_HEADER_LEN};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A packet that passed every check below the transport. It may be one of a row that came as one
/// through the network stack: [`Packet::advance`].
pub(crate) struct Packet {
    pub(crate) skb: RxSkb,
    pub(crate) repr: PacketRepr,
    /// Where its payload starts in the datagram.
    pub(crate) payload_at: usize,
    pub(crate) payload_len: u32,
    /// The addresses of the row, as GIDs.
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    /// What the ICRCs of the row begin with.
    head: IcrcHead,
    /// The IPv4 identification of the first of the row.
    first_id: u16,
    /// The last one was taken.
    over: bool,
}

impl Packet {
    /// The first intact packet of the row `skb`.
    #[inline(always)]
    fn first(core: &Core, mut skb: RxSkb) -> Option<Self> {
        let mut head = IcrcHead::ip(skb.ip_header(), skb.udp_header()).ok()?;
        let first_id = head.datagram().ip_id;
        loop {
            if let Some(Parsed {
                repr,
                header_len,
                payload_len,
            }) = read(core, &mut skb, &mut head, first_id)
            {
                return Some(Packet {
                    source: skb.source(),
                    destination: skb.destination(),
                    skb,
                    repr,
                    payload_at: header_len,
                    payload_len: payload_len as u32,
                    head,
                    first_id,
                    over: false,
                });
            }
            if !skb.advance() {
                return None;
            }
        }
    }

    /// Goes on to the next intact packet of the row; `false` if there is none.
    #[inline]
    pub(crate) fn advance(&mut self, core: &Core) -> bool {
        while self.skb.is_row() && self.skb.advance() {
            let parsed = read(core, &mut self.skb, &mut self.head, self.first_id);
            if let Some(Parsed {
                repr,
                header_len,
                payload_len,
            }) = parsed
            {
                self.repr = repr;
                self.payload_at = header_len;
                self.payload_len = payload_len as u32;
                return true;
            }
        }
        self.over = true;
        false
    }

    /// Calls `each` with the pieces of the payload: its offset in the payload, and its bytes.
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        mut each: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut offset = 0_u32;
        let mut result = Ok(());
        let walked = self
            .skb
            .for_each(self.payload_at, self.payload_len as usize, |bytes| {
                if result.is_ok() {
                    result = each(offset, bytes);
                    offset = offset.wrapping_add(bytes.len() as u32);
                }
            });
        // The walk covers what the length check allowed.
        let _ = walked;
        result
    }
}

/// Where the sockets deliver to.
pub(crate) struct Receive;

impl Receiver for Receive {
    const PORT: u16 = ROCE_PORT;

    fn receive(skb: RxSkb, netdev: &NetDevice) {
        if let Some(core) = find_core(&skb, netdev) {
            deliver(&core, skb);
        }
    }
}

/// The device that a packet is for: the one on the netdev that it came in by, or on the real device
/// below that if it is a VLAN; what came over the loopback netdev is for the owner of the address.
fn find_core(skb: &RxSkb, netdev: &NetDevice) -> Option<Arc<Core>> {
    let find =
        |dev: &NetDevice| super::device_on(dev).or_else(|| dev.with_vlan_real(super::device_on)?);
    if netdev.is_loopback() {
        lookup::owner(netdev, &skb.destination(), find)?
    } else {
        find(netdev)
    }
}

/// Takes the packets of a row to their QP, which may be more than one.
fn deliver(core: &Arc<Core>, skb: RxSkb) {
    let Some(mut packet) = Packet::first(core, skb) else {
        return;
    };
    loop {
        let index = packet.skb.index();
        match core.qps.get(packet.repr.bth.dest_qp.get()) {
            Some(qp) => engine::run(&qp, Input::Packet(&mut packet)),
            None => core.counters.count(Count::NoQp),
        }
        if packet.over {
            return;
        }
        // The QP took its own ones and left us the first that is not; unless it did nothing.
        if packet.skb.index() == index && !packet.advance(core) {
            return;
        }
    }
}

/// Reads the headers and checks the ICRC of the packet that `skb` is at; counts it.
#[inline(always)]
fn read(core: &Core, skb: &mut RxSkb, head: &mut IcrcHead, first_id: u16) -> Option<Parsed> {
    core.counters.count(Count::RcvdPackets);
    let mut copy = [0; MAX_HEADER_LEN];
    let headers = skb.headers(&mut copy)?;
    let parsed = match PacketRepr::parse(headers, skb.len()) {
        Ok(parsed) => parsed,
        Err(error) => {
            core.counters.parse_error(error);
            return None;
        }
    };
    if skb.is_row() {
        // Segmentation counts the identification up by one.
        head.set_datagram(datagram(skb, first_id.wrapping_add(skb.index()))?);
    }
    if check_icrc(skb, head).is_none() && retry(skb, head, first_id).is_none() {
        core.counters.count(Count::BadIcrc);
        return None;
    }
    Some(parsed)
}

/// The datagram of a row that `skb` is at.
#[inline]
fn datagram(skb: &RxSkb, ip_id: u16) -> Option<Datagram> {
    let udp_len = u16::try_from(skb.len().checked_add(UDP_LEN)?).ok()?;
    Some(Datagram { udp_len, ip_id })
}

/// Packets that were merged on this machine may all have had one and the same identification, as RFC 6864
/// allows.
#[cold]
fn retry(skb: &mut RxSkb, head: &mut IcrcHead, first_id: u16) -> Option<()> {
    if skb.index() == 0 {
        return None;
    }
    head.set_datagram(datagram(skb, first_id)?);
    check_icrc(skb, head)
}

/// Whether the ICRC is right.
#[inline(always)]
fn check_icrc(skb: &mut RxSkb, head: &mut IcrcHead) -> Option<()> {
    if let Some(all) = skb.sole() {
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
