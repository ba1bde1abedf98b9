// SPDX-License-Identifier: GPL-2.0

//! The 40 bytes before the payload of a received datagram (IBTA annex A17.4.3, 11.4.1.2).
//!
//! An InfiniBand UD receive buffer starts with a global route header. RoCEv2 has none on the wire;
//! the IP header of the packet takes its place: an IPv6 header all of it, an IPv4 header the last
//! 20 bytes, where the first 20 carry nothing.

use super::Gid;

/// Length of the area in bytes.
pub const GRH_LEN: usize = 40;

/// Length of an IPv4 header without options in bytes.
const IPV4_LEN: usize = 20;

/// The network layer of a RoCEv2 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkType {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl NetworkType {
    /// The network layer over which packets from or to `gid` travel.
    #[inline]
    pub fn of(gid: &Gid) -> Self {
        match gid.to_ipv4() {
            Some(_) => NetworkType::Ipv4,
            None => NetworkType::Ipv6,
        }
    }

    /// The network layer of a packet whose IP header begins with `byte`.
    #[inline]
    pub const fn of_header(byte: u8) -> Option<Self> {
        match byte >> 4 {
            4 => Some(NetworkType::Ipv4),
            6 => Some(NetworkType::Ipv6),
            _ => None,
        }
    }
}

/// Where the IP header lies in the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrhLayout {
    /// Offset of the IP header in the area, in bytes; what is before it is zero.
    pub offset: usize,
    /// How many bytes of the IP header are kept, from its start: IPv4 options are not.
    pub len: usize,
}

impl GrhLayout {
    /// The layout for a network layer.
    #[inline]
    pub const fn of(network: NetworkType) -> Self {
        match network {
            NetworkType::Ipv4 => GrhLayout {
                offset: GRH_LEN - IPV4_LEN,
                len: IPV4_LEN,
            },
            NetworkType::Ipv6 => GrhLayout {
                offset: 0,
                len: GRH_LEN,
            },
        }
    }

    /// The whole area for a packet whose IP header `header` begins with, or `None` when `header`
    /// is too short or is no IP header.
    pub fn area(header: &[u8]) -> Option<[u8; GRH_LEN]> {
        let network = NetworkType::of_header(*header.first()?)?;
        let layout = Self::of(network);
        let mut area = [0; GRH_LEN];
        let source = header.get(..layout.len)?;
        area.get_mut(layout.offset..)?.copy_from_slice(source);
        Some(area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_takes_the_last_twenty_bytes() {
        let header: Vec<u8> = (0x45..0x45 + 60).collect();
        let area = GrhLayout::area(&header).expect("long enough");
        assert_eq!(area[..20], [0; 20]);
        assert_eq!(area[20..], header[..20]);
        assert_eq!(GrhLayout::area(&header[..20]), Some(area));
        assert_eq!(GrhLayout::area(&header[..19]), None);
    }

    #[test]
    fn ipv6_takes_all() {
        let header: Vec<u8> = (0x60..0x60 + 40).collect();
        assert_eq!(
            GrhLayout::area(&header).as_ref().map(|a| &a[..]),
            Some(&header[..])
        );
        assert_eq!(GrhLayout::area(&header[..39]), None);
    }

    #[test]
    fn other_versions_have_no_area() {
        for version in (0..16).filter(|v| ![4, 6].contains(v)) {
            assert_eq!(GrhLayout::area(&[version << 4; 60]), None);
        }
        assert_eq!(GrhLayout::area(&[]), None);
    }

    #[test]
    fn the_gid_decides_the_network() {
        assert_eq!(
            NetworkType::of(&Gid::from_ipv4([10, 0, 0, 1])),
            NetworkType::Ipv4
        );
        assert_eq!(NetworkType::of(&Gid::new([0xfe; 16])), NetworkType::Ipv6);
    }
}
