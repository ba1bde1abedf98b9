// SPDX-License-Identifier: GPL-2.0

//! The path to a peer: addresses from an address vector, and a route that is looked up once and
//! cached until the routing tables change.

use super::wire_packet::WirePacket;
use crate::device::port::Port;
use crate::net::netdev::{Namespace, NetdevId};
use crate::net::route::{Flow, Header, Route};
use crate::proto::wire::ip::{DatagramFields, ECN, ROCE_UDP_PORT, UDP_LEN};
use crate::proto::wire::{Ecn, Gid, GrhLayout, IcrcHead, GRH_LEN};
use crate::rdma::gid::AhAttr;
use crate::rdma::gid_table;
use kernel::prelude::*;

/// The first UDP source port that RoCEv2 uses (annex A17.3.2.1).
const FIRST_PORT: u16 = 0xc000;

/// The hop limit for an address vector that has none (0): the usual one, as RoCEv2 is routed.
const DEFAULT_HOP_LIMIT: u8 = 64;

/// The PCP (or traffic class) that a service level asks for. There are eight of them. A process may
/// have copied the service level from the completion of a datagram. Bit 3 there says that the value
/// is the packet's type and no service level.
fn priority_class(service_level: u8) -> u8 {
    match service_level {
        0..=7 => service_level,
        _ => 0,
    }
}

/// The DSCP of a CNP, as ConnectX's are: class selector 6, which networks set apart from the data
/// that congest them (RFC 2474 4.2.2).
const CNP_DSCP: u8 = 48;

/// The traffic class of a CNP, which is not ECN-capable.
const CNP_CLASS: u8 = CNP_DSCP << 2;

/// The path to a peer.
pub(crate) struct Path {
    flow: Flow,
    /// The netdev that has the source address, and the network namespace of that.
    netdev: NetdevId,
    namespace: Namespace,
    /// The IP and UDP headers of its packets, and the part of the ICRC that covers them.
    header: Header,
    icrc: IcrcHead,
    /// The IPv4 identification of the next packet.
    next_id: u16,
    route: Option<Route>,
    /// The id of the VLAN that the path begins with.
    vlan: Option<u16>,
    /// The destination is a multicast group.
    to_group: bool,
    /// Its packets are ECN-capable now.
    ecn_capable: bool,
    /// The path leads back to this device, so that it needs no packets. This was checked when the
    /// GIDs had this generation.
    loopback: bool,
    generation: u32,
}

/// The UDP source port for a connection: the same for all its packets, so that the network keeps
/// them in order, and different between connections, so that the network may spread them
/// (annex A17.9).
fn source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let mix = if flow_label != 0 {
        flow_label
    } else {
        // Any hash of both QP numbers that differs between neighbouring QPs.
        local_qpn.wrapping_mul(0x9e37_79b1) ^ remote_qpn.wrapping_mul(0x85eb_ca6b)
    };
    FIRST_PORT | ((mix ^ (mix >> 14)) as u16 & 0x3fff)
}

impl Path {
    /// The path that `attr` describes, between these QPs (0 for one that is not known). If it leads
    /// back to the device, it takes the loopback if `loopback`, or else packets.
    ///
    /// EINVAL if its addresses are not of one IP version.
    pub(crate) fn new(
        attr: &AhAttr,
        (local_qpn, remote_qpn): (u32, u32),
        loopback: bool,
    ) -> Result<Self> {
        let flow = Flow {
            source: *attr.sgid(),
            destination: *attr.dgid(),
            source_port: source_port(attr.flow_label(), local_qpn, remote_qpn),
            destination_port: ROCE_UDP_PORT,
            // Routers mark an ECN-capable packet instead of dropping it: see `set_ecn_capable`.
            traffic_class: attr.traffic_class() & !ECN,
            priority_class: priority_class(attr.service_level()),
            flow_label: attr.flow_label(),
            hop_limit: match attr.hop_limit() {
                0 => DEFAULT_HOP_LIMIT,
                limit => limit,
            },
        };
        let mut path = Self::with_flow(flow, attr.netdev(), attr.namespace())?;
        path.vlan = attr.vlan();
        path.loopback = attr.own().is_some() && loopback;
        path.generation = attr.own().unwrap_or(0);
        Ok(path)
    }

    /// The path of packets of `flow`, by the wire. EINVAL as for [`Path::new`].
    fn with_flow(flow: Flow, netdev: NetdevId, namespace: Namespace) -> Result<Self> {
        let header = flow.header().ok_or(EINVAL)?;
        let (ip, udp) = header.as_bytes().split_last_chunk().ok_or(EINVAL)?;
        let icrc = IcrcHead::new(ip, udp).map_err(|_| EINVAL)?;
        Ok(Path {
            to_group: Gid::new(flow.destination).is_multicast(),
            flow,
            netdev,
            namespace,
            header,
            icrc,
            next_id: 0,
            route: None,
            vlan: None,
            ecn_capable: false,
            loopback: false,
            generation: 0,
        })
    }

    /// The path of a CNP from QP `local_qpn` of `port` to the sender of `packet`, a datagram of QP
    /// `remote_qpn`: between the packet's addresses, the other way (annex A17.9.3).
    ///
    /// EINVAL if its addresses are not of one IP version.
    #[cold]
    pub(crate) fn of_cnp(
        port: &Port,
        packet: &WirePacket,
        local_qpn: u32,
        remote_qpn: u32,
    ) -> Result<Self> {
        let source = packet.destination;
        // A packet may arrive at a VRF above the netdev that has the address, or at lo.
        let arrived = packet.skb.device_id();
        let netdev = match gid_table::with_netdev(arrived, &source, |_| ()) {
            Some(()) => arrived,
            None => port.netdev_id().ok_or(ENODEV)?,
        };
        let flow = Flow {
            source,
            destination: packet.source,
            source_port: source_port(0, local_qpn, remote_qpn),
            destination_port: ROCE_UDP_PORT,
            traffic_class: CNP_CLASS,
            priority_class: 0,
            flow_label: 0,
            hop_limit: DEFAULT_HOP_LIMIT,
        };
        Self::with_flow(flow, netdev, packet.skb.namespace())
    }

    /// Calls `with` with the path, whose packets are CNPs meanwhile: their traffic class is another
    /// one. Route and priority stay those of the connection.
    #[cold]
    pub(crate) fn with_cnp_class<T>(&mut self, with: impl FnOnce(&mut Self) -> T) -> T {
        self.header.set_traffic_class(CNP_CLASS);
        let result = with(self);
        self.header.set_traffic_class(self.traffic_class());
        result
    }

    /// The traffic class of its packets.
    fn traffic_class(&self) -> u8 {
        match self.ecn_capable {
            true => self.flow.traffic_class | Ecn::Ect0 as u8,
            false => self.flow.traffic_class,
        }
    }

    /// Whether its packets are ECN-capable now.
    #[inline]
    pub(crate) fn is_ecn_capable(&self) -> bool {
        self.ecn_capable
    }

    /// Whether its packets are ECN-capable, ECT(0), from now on (RFC 3168 5): routers mark such a
    /// packet instead of dropping it, and the sender has to react to the marks.
    pub(crate) fn set_ecn_capable(&mut self, capable: bool) {
        self.ecn_capable = capable;
        self.header.set_traffic_class(self.traffic_class());
    }

    /// Whether the path led back to this device when it was made: its packets take the loopback and
    /// not the wire. That does not change for a connection, whose requests are already segmented
    /// for the one or the other.
    #[inline]
    pub(crate) fn is_loopback(&self) -> bool {
        self.loopback
    }

    /// Whether it still leads back to this device: both its addresses are the port's.
    ///
    /// Softirq or process context with bottom halves off.
    #[inline]
    pub(crate) fn is_local(&mut self, port: &Port) -> bool {
        self.loopback && (self.generation == gid_table::generation() || self.recheck(port))
    }

    #[cold]
    fn recheck(&mut self, port: &Port) -> bool {
        let generation = gid_table::generation();
        let (from, to) = (&self.flow.source, &self.flow.destination);
        let own = port.has_gids(self.netdev, [from, to]);
        if own {
            self.generation = generation;
        }
        own
    }

    /// As [`Path::is_local`]. Once the path no longer leads back, its packets take the wire for
    /// good.
    #[inline]
    pub(crate) fn latch_local(&mut self, port: &Port) -> bool {
        self.loopback = self.is_local(port);
        self.loopback
    }

    /// The source and destination address of its packets, as GIDs.
    #[inline]
    pub(crate) fn addresses(&self) -> (&[u8; 16], &[u8; 16]) {
        (&self.flow.source, &self.flow.destination)
    }

    /// The id of the VLAN by which its packets leave this device.
    pub(crate) fn vlan(&self) -> Option<u16> {
        self.vlan
    }

    /// Whether its packets are of IPv6.
    pub(crate) fn is_v6(&self) -> bool {
        self.flow.is_v6()
    }

    /// The GRH area of the receive buffer, for a datagram with `len` bytes from the BTH on
    /// (annex A17.4.5.2).
    pub(crate) fn grh_area(&self, len: usize) -> Option<[u8; GRH_LEN]> {
        let (ip, _) = self.header.as_bytes().split_last_chunk::<UDP_LEN>()?;
        let datagram = DatagramFields {
            udp_len: u16::try_from(len.checked_add(UDP_LEN)?).ok()?,
            ip_id: self.next_id,
        };
        GrhLayout::area_of(ip, datagram)
    }

    /// The part of the ICRC that covers the headers before the BTH.
    #[inline]
    pub(crate) fn icrc(&mut self) -> &mut IcrcHead {
        &mut self.icrc
    }

    /// The IPv4 identification of the next packet.
    #[inline]
    pub(crate) fn next_id(&self) -> u16 {
        self.next_id
    }

    /// `count` packets have used their IPv4 identifications. These are consecutive, so that GRO
    /// followed by GSO preserves them: the ICRC covers the identification. Any value is valid where
    /// fragmentation is forbidden (RFC 6864, 4.1).
    #[inline]
    pub(crate) fn used_ids(&mut self, count: u16) {
        self.next_id = self.next_id.wrapping_add(count);
    }

    /// Whether a packet from `source` to `destination` came from the peer to this side.
    #[inline]
    pub(crate) fn matches(&self, source: &[u8; 16], destination: &[u8; 16]) -> bool {
        self.flow.destination == *source && self.flow.source == *destination
    }

    /// The network namespace that its packets leave from and arrive in. Others may have the same
    /// addresses.
    #[inline]
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Whether messages to the peer may be segmented by the network stack or a network card
    /// (UDP GSO); `None` before the first packet, which finds the route.
    ///
    /// Softirq or process context with bottom halves off.
    pub(crate) fn uses_gso(&self, port: &Port) -> Option<bool> {
        let route = self.route.as_ref()?;
        Some(port.settings().segmentation && route.supports_udp_gso())
    }

    /// Drops the cached route.
    #[inline]
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// The route and the headers of the next packet. Looks the route up if the cached one is not
    /// valid.
    ///
    /// Softirq or process context with bottom halves off.
    ///
    /// # Errors
    ///
    /// The error of the route lookup: ENETUNREACH, EHOSTUNREACH; ENODEV when the netdev is gone.
    #[inline]
    pub(crate) fn route(&mut self, port: &Port) -> Result<(&Route, &Header)> {
        // Whether the IP stack gives this device a copy of a packet to a group depends on the
        // group's members at the time of the lookup.
        if self.to_group || !self.route.as_ref().is_some_and(Route::is_valid) {
            self.route = None;
            self.route = Some(port.route(self.netdev, &self.flow)?);
        }
        self.header.set_id(self.next_id);
        Ok((self.route.as_ref().ok_or(ENODEV)?, &self.header))
    }
}
