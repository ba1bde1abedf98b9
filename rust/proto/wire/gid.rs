// SPDX-License-Identifier: GPL-2.0

//! Global identifiers, which on RoCEv2 are IP addresses (IBTA annex A17.4.1).

/// A global identifier: an IPv6 address, or an IPv4 address in its mapped form `::ffff:a.b.c.d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Gid([u8; 16]);

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Gid {
    /// No address: an empty entry of the GID table.
    pub const ZERO: Gid = Gid([0; 16]);

    /// A GID from its bytes in wire order.
    #[inline]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Gid(bytes)
    }

    /// The bytes in wire order.
    #[inline]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The GID of an IPv4 address, whose bytes are in wire order.
    #[inline]
    pub const fn from_ipv4(addr: [u8; 4]) -> Self {
        let [a, b, c, d] = addr;
        Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// The IPv4 address in wire order, when the GID is a mapped one.
    #[inline]
    pub fn to_ipv4(&self) -> Option<[u8; 4]> {
        self.0.strip_prefix(&MAPPED)?.first_chunk().copied()
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Whether packets to it go to a group: IPv6 `ff00::/8`, IPv4 `224.0.0.0/4`.
    #[inline]
    pub fn is_multicast(&self) -> bool {
        match self.to_ipv4() {
            Some([first, ..]) => first & 0xf0 == 0xe0,
            None => matches!(self.0, [0xff, ..]),
        }
    }

    /// Whether it is an IPv6 link-local address, `fe80::/10`.
    #[inline]
    pub const fn is_link_local(&self) -> bool {
        matches!(self.0, [0xfe, second, ..] if second & 0xc0 == 0x80)
    }
}

#[cfg(test)]
mod tests {
    use super::Gid;

    /// IBTA annex A17.4.1: the GID of an IPv4 address is its mapped IPv6 address.
    #[test]
    fn ipv4_is_mapped_and_found_again() {
        let gid = Gid::from_ipv4([192, 0, 2, 1]);
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        assert_eq!(gid.bytes(), &bytes);
        assert_eq!(gid.to_ipv4(), Some([192, 0, 2, 1]));
        assert!(!gid.is_multicast() && !gid.is_link_local() && !gid.is_zero());
    }

    /// IBTA annex A17.4.1: every other GID is an IPv6 address.
    #[test]
    fn an_address_one_bit_off_the_prefix_is_ipv6() {
        let mapped = Gid::from_ipv4([192, 0, 2, 1]);
        for bit in 0..96 {
            let mut bytes = *mapped.bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Gid::new(bytes).to_ipv4(), None);
        }
    }

    #[test]
    fn groups_and_link_local() {
        let v6 = |a, b| {
            let mut bytes = [0; 16];
            (bytes[0], bytes[1], bytes[15]) = (a, b, 1);
            Gid::new(bytes)
        };
        assert!(v6(0xff, 0x02).is_multicast());
        assert!(!v6(0xfe, 0x80).is_multicast());
        assert!(v6(0xfe, 0x80).is_link_local());
        assert!(v6(0xfe, 0xbf).is_link_local());
        assert!(!v6(0xfe, 0xc0).is_link_local());
        assert!(Gid::from_ipv4([224, 0, 0, 1]).is_multicast());
        assert!(Gid::from_ipv4([239, 255, 0, 1]).is_multicast());
        assert!(!Gid::from_ipv4([240, 0, 0, 1]).is_multicast());
        assert!(Gid::default().is_zero());
    }
}
