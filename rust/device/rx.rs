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
use crate::proto::wire::{IcrcHead, PacketRepr, Parsed, ICRC_LEN, MAX_HEADER_LEN};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A packet that passed every check below the transport.
pub(crate) struct Packet {
    pub(crate) skb: RxSkb,
    pub(crate) repr: PacketRepr,
    /// Where its payload starts in the datagram.
    pub(crate) payload_at: usize,
    pub(crate) payload_len: u32,
}

impl Packet {
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
            core.counters.count(Count::RcvdPackets);
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

/// Takes a packet to its QP.
fn deliver(core: &Arc<Core>, mut skb: RxSkb) {
    let total = skb.len();
    let Some(headers) = skb.headers(total.min(MAX_HEADER_LEN)) else {
        return;
    };
    let Parsed {
        repr,
        header_len,
        payload_len,
    } = match PacketRepr::parse(headers, total) {
        Ok(parsed) => parsed,
        Err(error) => return core.counters.parse_error(error),
    };
    let Some(qp) = core.qps.get(repr.bth.dest_qp.get()) else {
        return core.counters.count(Count::NoQp);
    };
    if check_icrc(&mut skb, total).is_none() {
        return core.counters.count(Count::BadIcrc);
    }
    let packet = Packet {
        skb,
        repr,
        payload_at: header_len,
        payload_len: payload_len as u32,
    };
    engine::run(&qp, Input::Packet(&packet));
}

/// Whether the ICRC is right.
#[inline]
fn check_icrc(skb: &mut RxSkb, total: usize) -> Option<()> {
    let end = total.checked_sub(ICRC_LEN)?;
    let bth = *skb.headers(BTH_LEN)?.first_chunk::<BTH_LEN>()?;
    let head = IcrcHead::ip(skb.ip_header(), skb.udp_header()).ok()?;
    let mut icrc = head.start(crc32_le, &bth);
    skb.for_each(BTH_LEN, end.checked_sub(BTH_LEN)?, |bytes| {
        icrc.update(bytes)
    })
    .ok()?;
    let mut sent = [0; ICRC_LEN];
    skb.copy(end, &mut sent).ok()?;
    (sent == icrc.finish()).then_some(())
}
