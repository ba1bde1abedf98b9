// SPDX-License-Identifier: GPL-2.0

//! What comes for a queue pair: a packet from the wire, or a parcel from a queue pair of this device.

use super::parcel::{Parcel, Sender};
use super::path::Path;
use super::rx::Packet;
use crate::proto::wire::{PacketRepr, GRH_LEN};
use crate::rdma::bytes::Bytes;
use crate::rdma::gid::Network;

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) enum Incoming<'a> {
    /// From the wire.
    Packet(&'a Packet),
    /// From here.
    Parcel(&'a Parcel),
}

impl Incoming<'_> {
    /// The headers.
    #[inline]
    pub(crate) fn repr(&self) -> &PacketRepr {
        match self {
            Incoming::Packet(packet) => &packet.repr,
            Incoming::Parcel(parcel) => &parcel.repr,
        }
    }

    /// How many packets these are: they are alike, see `Connection::handle_segments`.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        match self {
            Incoming::Packet(packet) => packet.count,
            Incoming::Parcel(_) => 1,
        }
    }

    /// The bytes of payload of each.
    #[inline]
    pub(crate) fn payload_len(&self) -> u32 {
        match self {
            Incoming::Packet(packet) => packet.payload_len,
            Incoming::Parcel(parcel) => parcel.len,
        }
    }

    /// Whether it came by `path`, the other way.
    #[inline]
    pub(crate) fn came_by(&self, path: &Path) -> bool {
        match self {
            Incoming::Packet(packet) => {
                !path.is_loopback() && path.joins(&packet.source, &packet.destination)
            }
            Incoming::Parcel(parcel) => match &parcel.sender {
                Sender::Connected {
                    source,
                    destination,
                    ..
                } => path.is_loopback() && path.joins(source, destination),
                Sender::Datagram(_) => false,
            },
        }
    }

    /// Whether QP `qpn` of the peer may have sent it. A packet of a connection does not tell its source QP (IBTA 9.2),
    /// a parcel does: no process of this host can speak for another's queue pair.
    #[inline]
    pub(crate) fn may_be_from(&self, qpn: u32) -> bool {
        match self {
            Incoming::Packet(_) => true,
            Incoming::Parcel(parcel) => match parcel.sender {
                Sender::Connected { qpn: source, .. } => source == qpn,
                Sender::Datagram(_) => false,
            },
        }
    }

    /// Calls `each` with the pieces of all payload: its offset in the payload, and the bytes. `gone` is the
    /// error for bytes which the sender has given up meanwhile.
    #[inline]
    pub(crate) fn for_payload<E>(
        &self,
        gone: E,
        each: impl FnMut(u32, Bytes<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Incoming::Packet(packet) => packet.for_payload(each),
            Incoming::Parcel(parcel) => parcel.for_payload(gone, each),
        }
    }

    /// What a datagram's receive buffer begins with (annex A17.4.3).
    #[inline]
    pub(crate) fn grh_area(&self) -> Option<[u8; GRH_LEN]> {
        match self {
            Incoming::Packet(packet) => packet.grh_area(),
            Incoming::Parcel(parcel) => match &parcel.sender {
                Sender::Datagram(ah) => {
                    let len = parcel.repr.wire_len(parcel.len as usize);
                    ah.with_path(|path| path.grh_area(len))
                }
                Sender::Connected { .. } => None,
            },
        }
    }

    /// The IP version, of a datagram.
    #[inline]
    pub(crate) fn network(&self) -> Network {
        let v6 = match self {
            Incoming::Packet(packet) => packet.skb.is_v6(),
            Incoming::Parcel(parcel) => match &parcel.sender {
                Sender::Datagram(ah) => ah.with_path(|path| path.is_v6()),
                Sender::Connected { .. } => false,
            },
        };
        if v6 {
            Network::V6
        } else {
            Network::V4
        }
    }

    /// The Ethernet address that it came from, if it came over Ethernet.
    #[inline]
    pub(crate) fn source_mac(&self) -> Option<[u8; 6]> {
        match self {
            Incoming::Packet(packet) => packet.skb.source_mac(),
            Incoming::Parcel(_) => None,
        }
    }
}
