// SPDX-License-Identifier: GPL-2.0

//! The 40 bytes before the payload of a received datagram (IBTA annex A17.4.5.2, IBTA 11.4.1.2).
//!
//! An InfiniBand UD receive buffer starts with a global route header. RoCEv2 has none on the wire;
//! the IP header of the packet takes its place. An IPv6 header takes all 40 bytes. An IPv4 header
//! takes the last 20 bytes, and the first 20 are unused.

use super::ip::{checksum, DatagramFields, NetworkType, IPV4_MIN_LEN};

/// Length of the area in bytes.
pub const GRH_LEN: usize = 40;

/// The place of the IP header in the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrhLayout {
    /// Offset of the IP header in the area, in bytes; the bytes before it are zero.
    pub offset: usize,
    /// How many bytes of the IP header are kept, from its start. IPv4 options are dropped.
    pub len: usize,
}

impl GrhLayout {
    /// The layout for a network layer.
    #[inline]
    pub const fn of(network: NetworkType) -> Self {
        match network {
            NetworkType::Ipv4 => GrhLayout {
                offset: GRH_LEN - IPV4_MIN_LEN,
                len: IPV4_MIN_LEN,
            },
            NetworkType::Ipv6 => GrhLayout {
                offset: 0,
                len: GRH_LEN,
            },
        }
    }

    /// The whole area for a packet whose IP header is at the start of `header`. `None` when
    /// `header` is too short or is no IP header.
    pub fn area(header: &[u8]) -> Option<[u8; GRH_LEN]> {
        let network = NetworkType::of_header(*header.first()?)?;
        let layout = Self::of(network);
        let mut area = [0; GRH_LEN];
        let source = header.get(..layout.len)?;
        area.get_mut(layout.offset..)?.copy_from_slice(source);
        Some(area)
    }

    /// As [`GrhLayout::area`], for one of several datagrams that share this header. Replaces the
    /// lengths and the identification by those of the datagram, and updates the checksum of an IPv4
    /// header without options (RFC 791 3.1).
    pub fn area_of(header: &[u8], datagram: DatagramFields) -> Option<[u8; GRH_LEN]> {
        let mut area = Self::area(header)?;
        if NetworkType::of_header(*header.first()?)? == NetworkType::Ipv6 {
            [area[4], area[5]] = datagram.udp_len.to_be_bytes();
            return Some(area);
        }
        let ip: &mut [u8; IPV4_MIN_LEN] = area.last_chunk_mut()?;
        let total = datagram
            .udp_len
            .checked_add(u16::try_from(header.len()).ok()?)?;
        [ip[2], ip[3]] = total.to_be_bytes();
        [ip[4], ip[5]] = datagram.ip_id.to_be_bytes();
        if header.len() == IPV4_MIN_LEN {
            [ip[10], ip[11]] = [0, 0];
            [ip[10], ip[11]] = checksum(ip).to_be_bytes();
        }
        Some(area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IBTA annex A17.4.5.2, IBTA 11.4.1.2: of the 40 bytes before a datagram an IPv4 header takes
    /// the last 20.
    #[test]
    fn ipv4_takes_the_last_twenty_bytes() {
        let header: Vec<u8> = (0x45..0x45 + 60).collect();
        let area = GrhLayout::area(&header).expect("long enough");
        assert_eq!(area[..20], [0; 20]);
        assert_eq!(area[20..], header[..20]);
        assert_eq!(GrhLayout::area(&header[..20]), Some(area));
        assert_eq!(GrhLayout::area(&header[..19]), None);
    }

    /// IBTA annex A17.4.5.2, IBTA 11.4.1.2: an IPv6 header takes all 40 bytes before a datagram.
    #[test]
    fn ipv6_takes_all() {
        let header: Vec<u8> = (0x60..0x60 + 40).collect();
        assert_eq!(
            GrhLayout::area(&header).as_ref().map(|a| &a[..]),
            Some(&header[..])
        );
        assert_eq!(GrhLayout::area(&header[..39]), None);
    }

    /// Whether the checksum is right: the words of the header then add up to all ones.
    fn is_right(ip: &[u8]) -> bool {
        let words = ip
            .chunks(2)
            .map(|w| (u32::from(w[0]) << 8) | u32::from(w[1]));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    /// RFC 791 3.1: an IPv4 header has the length, identification and checksum of its own packet.
    #[test]
    fn each_datagram_has_its_own_lengths() {
        let mut v4 = [
            0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0xaa, 0xbb, 10, 77, 0, 1, 10, 77, 0, 2,
        ];
        let datagram = DatagramFields {
            udp_len: 1048,
            ip_id: 0xfffe,
        };
        let area = GrhLayout::area_of(&v4, datagram).expect("a header");
        assert_eq!(area[22..26], [4, 44, 0xff, 0xfe]);
        assert!(is_right(&area[20..]));
        assert_eq!((&area[20..22], &area[26..30]), (&v4[..2], &v4[6..10]));
        assert_eq!(area[32..], v4[12..]);
        let long = DatagramFields {
            udp_len: u16::MAX - 19,
            ..datagram
        };
        assert_eq!(
            GrhLayout::area_of(&v4, long),
            None,
            "longer than IPv4 can say"
        );
        v4[0] = 0x46;
        let mut options = v4.to_vec();
        options.extend([1; 4]);
        let area = GrhLayout::area_of(&options, datagram).expect("a header");
        assert_eq!(area[22..24], [4, 48]);

        let mut v6: Vec<u8> = (0x60..0x60 + 40).collect();
        let area = GrhLayout::area_of(&v6, datagram).expect("a header");
        [v6[4], v6[5]] = [4, 24];
        assert_eq!(area[..], v6[..]);
        assert_eq!(GrhLayout::area_of(&[0x45; 19], datagram), None);
        assert_eq!(GrhLayout::area_of(&[], datagram), None);
    }

    #[test]
    fn other_versions_have_no_area() {
        for version in (0..16).filter(|v| ![4, 6].contains(v)) {
            assert_eq!(GrhLayout::area(&[version << 4; 60]), None);
        }
        assert_eq!(GrhLayout::area(&[]), None);
    }
}
