// SPDX-License-Identifier: GPL-2.0

//! The IP and UDP headers in front of a packet (IBTA annex A17.3): their lengths, and the fields
//! that the protocol knows of.

use super::Gid;

/// The UDP destination port of RoCEv2, in host order (IBTA annex A17.3.2.2, IANA "roce").
pub const ROCE_UDP_PORT: u16 = 4791;

/// Length of a UDP header in bytes.
pub const UDP_LEN: usize = 8;
/// Length of an IPv6 header in bytes.
pub const IPV6_LEN: usize = 40;
/// Shortest IPv4 header in bytes.
pub const IPV4_MIN_LEN: usize = 20;
/// Longest IPv4 header in bytes, with options.
pub const IPV4_MAX_LEN: usize = 60;

/// The bits of the IPv4 TOS or IPv6 traffic class that belong to the network: explicit congestion
/// notification (RFC 3168 5).
pub const ECN: u8 = 0x03;

/// Explicit congestion notification: the ECN field of an IP header (RFC 3168 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport of the packet does not react to marks: routers drop instead.
    NotEct = 0,
    /// ECN-capable, ECT(1).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced: a router has marked the packet.
    Ce = 3,
}

impl Ecn {
    /// The field of an IP header of either version. Of bytes that are no IP header: not ECT.
    #[inline]
    pub fn of_header(header: &[u8]) -> Self {
        let field = match header {
            [first, class, ..] if first >> 4 == 4 => *class,
            // The traffic class begins in the middle of the first byte.
            [first, class, ..] if first >> 4 == 6 => *class >> 4,
            _ => 0,
        };
        match field & ECN {
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            3 => Ecn::Ce,
            _ => Ecn::NotEct,
        }
    }
}

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

/// The fields in which the datagrams of one super-packet differ, in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramFields {
    /// Length of the UDP header and all that follows it, the ICRC included, in bytes: the UDP
    /// header's length field. The IP length follows from it.
    pub udp_len: u16,
    /// The IPv4 identification; unused for IPv6. Segmentation increments it by one for each
    /// datagram, modulo 2^16.
    pub ip_id: u16,
}

/// The checksum of an IPv4 header whose checksum field is zero.
pub(super) fn checksum(header: &[u8; IPV4_MIN_LEN]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|word| {
            word.iter()
                .fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
        })
        .sum();
    // Ten words have two carries at most, the second of 1.
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    let folded = (folded & 0xffff).wrapping_add(folded >> 16);
    !folded as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3168 5: the ECN field is the low two bits of the IPv4 TOS and of the IPv6 traffic class.
    #[test]
    fn the_ecn_field_is_found_in_both_versions() {
        let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (bits, ecn) in (0_u8..).zip(fields) {
            for dscp in [0, 48, 63] {
                let class = (dscp << 2) | bits;
                assert_eq!(Ecn::of_header(&[0x45, class, 0xff]), ecn);
                let v6 = [0x60 | (class >> 4), (class << 4) | 0xf, 0xff];
                assert_eq!(Ecn::of_header(&v6), ecn);
            }
        }
        for bytes in [&[][..], &[0x45], &[0x60], &[0x55, 0xff], &[0xff; 3]] {
            assert_eq!(Ecn::of_header(bytes), Ecn::NotEct);
        }
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
