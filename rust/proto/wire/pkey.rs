// SPDX-License-Identifier: GPL-2.0

//! Partition keys and the rule by which two of them match (IBTA 10.9.1, 10.9.3).

/// A 16-bit partition key: 15 bits name the partition, the top bit says full member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PKey(u16);

impl PKey {
    /// The default partition, as a full member.
    pub const DEFAULT: PKey = PKey(0xffff);
    /// The default partition, as a limited member.
    pub const DEFAULT_LIMITED: PKey = PKey(0x7fff);

    const FULL: u16 = 0x8000;

    /// A key from its 16 bits, in host order.
    #[inline]
    pub const fn new(value: u16) -> Self {
        PKey(value)
    }

    /// The 16 bits, in host order.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The partition without the membership bit.
    #[inline]
    pub const fn base(self) -> u16 {
        self.0 & !Self::FULL
    }

    /// Whether the holder is a full member.
    #[inline]
    pub const fn is_full(self) -> bool {
        self.0 & Self::FULL != 0
    }

    /// Whether the key is valid: a base of zero marks an invalid table entry.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }

    /// Whether a packet with key `self` may be taken by a holder of `other`: both valid, the same
    /// partition, and at least one a full member.
    #[inline]
    pub const fn matches(self, other: PKey) -> bool {
        self.is_valid() && self.base() == other.base() && (self.is_full() || other.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::PKey;

    /// IBTA 10.9.3: of two partition keys that match at least one is of a full member.
    #[test]
    fn one_must_be_a_full_member() {
        let (full, limited) = (PKey::DEFAULT, PKey::DEFAULT_LIMITED);
        assert!(full.matches(full));
        assert!(full.matches(limited));
        assert!(limited.matches(full));
        assert!(!limited.matches(limited));
    }

    /// IBTA 10.9.1, 10.9.3: a key without a partition is invalid, and keys of two partitions do not
    /// match.
    #[test]
    fn other_partitions_and_invalid_keys_never_match() {
        assert!(!PKey::new(0x8001).matches(PKey::new(0x8002)));
        assert!(PKey::new(0x8001).matches(PKey::new(0x0001)));
        for invalid in [PKey::new(0), PKey::new(0x8000)] {
            assert!(!invalid.is_valid());
            assert!(!invalid.matches(invalid));
            assert!(!invalid.matches(PKey::DEFAULT));
            assert!(!PKey::DEFAULT.matches(invalid));
        }
    }

    /// IBTA 10.9.3: it does not matter which of the two keys is the packet's.
    #[test]
    fn the_rule_is_symmetric_for_every_membership() {
        for a in 0..=u16::MAX {
            let a = PKey::new(a);
            for b in [
                0,
                1,
                0x7fff,
                0x8000,
                0x8001,
                0xffff,
                a.get(),
                a.get() ^ 0x8000,
            ] {
                let b = PKey::new(b);
                assert_eq!(a.matches(b), b.matches(a));
            }
        }
    }
}
