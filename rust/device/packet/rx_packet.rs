// SPDX-License-Identifier: GPL-2.0

//! A received packet: from the wire, now or a while ago, or by loopback from a queue pair of this
//! device.

use super::kept::KeptPacket;
use super::loopback::{LoopbackOrigin, LoopbackPacket};
use super::path::Path;
use super::wire_packet::WirePacket;
use crate::device::mem::error::MemError;
use crate::net::netdev::Namespace;
use crate::proto::wire::{PacketRepr, GRH_LEN};
use crate::rdma::gid::Network;
use crate::rdma::strided::StridedSrc;

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) enum RxPacket<'a> {
    /// From the wire.
    Wire(&'a WirePacket),
    /// From the wire, kept until its turn came.
    Kept(&'a KeptPacket),
    /// From a queue pair of this device.
    Loopback(&'a LoopbackPacket),
}

impl RxPacket<'_> {
    /// The headers.
    #[inline]
    pub(crate) fn repr(&self) -> &PacketRepr {
        match self {
            RxPacket::Wire(packet) => &packet.repr,
            RxPacket::Kept(packet) => &packet.repr,
            RxPacket::Loopback(packet) => &packet.repr,
        }
    }

    /// The number of packets. They are alike, see `Connection::handle_segments`.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        match self {
            RxPacket::Wire(packet) => packet.count,
            RxPacket::Kept(_) | RxPacket::Loopback(_) => 1,
        }
    }

    /// The bytes of payload of each.
    #[inline]
    pub(crate) fn payload_len(&self) -> u32 {
        match self {
            RxPacket::Wire(packet) => packet.payload_len,
            RxPacket::Kept(packet) => packet.payload_len(),
            RxPacket::Loopback(packet) => packet.len,
        }
    }

    /// The bytes of payload of all of them.
    #[inline]
    pub(crate) fn total_len(&self) -> u32 {
        self.payload_len().saturating_mul(self.count().into())
    }

    /// Whether it came from the peer of `path`. One that was kept has.
    #[inline]
    pub(crate) fn arrived_on(&self, path: &Path) -> bool {
        match self {
            RxPacket::Wire(packet) => {
                !path.is_loopback() && path.matches(&packet.source, &packet.destination)
            }
            RxPacket::Kept(_) => !path.is_loopback(),
            RxPacket::Loopback(packet) => match &packet.sender {
                LoopbackOrigin::Connected {
                    source,
                    destination,
                    ..
                } => path.is_loopback() && path.matches(source, destination),
                LoopbackOrigin::Datagram { .. } => false,
            },
        }
    }

    /// Whether QP `qpn` of the peer may have sent it. A packet of a connection does not carry its
    /// source QP (IBTA 9.2), but a loopback packet does. A process of this host can therefore not
    /// forge packets of another process's queue pair.
    #[inline]
    pub(crate) fn may_be_from(&self, qpn: u32) -> bool {
        match self {
            RxPacket::Wire(_) | RxPacket::Kept(_) => true,
            RxPacket::Loopback(packet) => match packet.sender {
                LoopbackOrigin::Connected { qpn: source, .. } => source == qpn,
                LoopbackOrigin::Datagram { .. } => false,
            },
        }
    }

    /// Calls `each` with all payload, chunk by chunk: the chunk's offset in the payload, and its
    /// bytes.
    ///
    /// # Errors
    ///
    /// The error of `each`; NotPresent if the bytes of the sender of a loopback packet cannot be
    /// read any more.
    #[inline]
    pub(crate) fn for_payload<E: From<MemError>>(
        &self,
        each: impl FnMut(u32, StridedSrc<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            RxPacket::Wire(packet) => packet.for_payload(each),
            RxPacket::Kept(packet) => packet.for_payload(each),
            RxPacket::Loopback(packet) => packet.for_payload(each),
        }
    }

    /// The GRH area of a datagram: the first bytes of its receive buffer (annex A17.4.5.2).
    #[inline]
    pub(crate) fn grh_area(&self) -> Option<[u8; GRH_LEN]> {
        match self {
            RxPacket::Wire(packet) => packet.grh_area(),
            RxPacket::Kept(_) => None,
            RxPacket::Loopback(packet) => match &packet.sender {
                LoopbackOrigin::Datagram { grh_area, .. } => *grh_area,
                LoopbackOrigin::Connected { .. } => None,
            },
        }
    }

    /// The IP version of a datagram.
    #[inline]
    pub(crate) fn network(&self) -> Network {
        let v6 = match self {
            RxPacket::Wire(packet) => packet.skb.is_v6(),
            RxPacket::Kept(_) => false,
            RxPacket::Loopback(packet) => match packet.sender {
                LoopbackOrigin::Datagram { v6, .. } => v6,
                LoopbackOrigin::Connected { .. } => false,
            },
        };
        if v6 {
            Network::V6
        } else {
            Network::V4
        }
    }

    /// The id of the VLAN that a datagram came by.
    #[inline]
    pub(crate) fn vlan(&self) -> Option<u16> {
        match self {
            RxPacket::Wire(packet) => packet.skb.vlan(),
            RxPacket::Kept(_) => None,
            RxPacket::Loopback(packet) => match packet.sender {
                LoopbackOrigin::Datagram { vlan, .. } => vlan,
                LoopbackOrigin::Connected { .. } => None,
            },
        }
    }

    /// The network namespace in which it arrived.
    #[inline]
    pub(crate) fn namespace(&self) -> Namespace {
        match self {
            RxPacket::Wire(packet) => packet.skb.namespace(),
            RxPacket::Kept(packet) => packet.namespace,
            RxPacket::Loopback(packet) => match packet.sender {
                LoopbackOrigin::Connected { namespace, .. }
                | LoopbackOrigin::Datagram { namespace, .. } => namespace,
            },
        }
    }

    /// The Ethernet address that it came from, if it came over Ethernet.
    #[inline]
    pub(crate) fn source_mac(&self) -> Option<[u8; 6]> {
        match self {
            RxPacket::Wire(packet) => packet.skb.source_mac(),
            RxPacket::Kept(_) | RxPacket::Loopback(_) => None,
        }
    }
}
