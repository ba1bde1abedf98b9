// SPDX-License-Identifier: GPL-2.0

//! Packet sequence numbers: 24-bit circular arithmetic (IBTA 9.7.2).

use core::fmt;

/// A packet sequence number. Counts modulo 2^24, so no operation on it can overflow.
///
/// There is no `Ord`: circular order is only meaningful between PSNs that are close to each other,
/// see [`Psn::distance`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Width of the field in bits.
    pub const BITS: u32 = 24;
    /// The bits that count.
    pub const MASK: u32 = (1 << Self::BITS) - 1;
    /// Half the circle: two PSNs are ordered as long as they are less than this apart.
    pub const HALF: u32 = 1 << (Self::BITS - 1);
    /// The PSN zero.
    pub const ZERO: Psn = Psn(0);

    /// Takes the low 24 bits of `value`, which is in host order.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Psn(value & Self::MASK)
    }

    /// The number, less than 2^24, in host order.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `n` places later.
    #[inline]
    // `+` would hide that it wraps. `expect` is for both builds, and this is public in one alone.
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The PSN `n` places earlier.
    #[inline]
    // As for `add`.
    #[allow(clippy::should_implement_trait)]
    pub const fn sub(self, n: u32) -> Self {
        Self::new(self.0.wrapping_sub(n))
    }

    /// The PSN that follows.
    #[inline]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The PSN before.
    #[inline]
    pub const fn prev(self) -> Self {
        self.sub(1)
    }

    /// How far `self` lies after `other`, in `-2^23 .. 2^23`; negative when it lies before.
    ///
    /// `a.distance(b) == n` means `b.add(n as u32) == a`.
    #[inline]
    pub const fn distance(self, other: Psn) -> i32 {
        // Move the 24-bit sign to bit 31 and let an arithmetic shift spread it.
        (self.0.wrapping_sub(other.0) << (32 - Self::BITS)) as i32 >> (32 - Self::BITS)
    }

    /// Whether `self` lies before `other` on the nearer half of the circle.
    #[inline]
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }

    /// Whether `self` lies after `other` on the nearer half of the circle.
    #[inline]
    pub const fn is_after(self, other: Psn) -> bool {
        self.distance(other) > 0
    }

    /// Whether `self` is one of the `count` PSNs that begin with `first`. This is correct for the
    /// whole circle, and therefore also for READs of more than 2^23 packets.
    #[inline]
    pub const fn is_within(self, first: Psn, count: u32) -> bool {
        self.offset_from(first) < count
    }

    /// The distance from `first` forward to `self`, in `0 .. 2^24`.
    #[inline]
    pub const fn offset_from(self, first: Psn) -> u32 {
        self.0.wrapping_sub(first.0) & Self::MASK
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Psn;
    use proptest::prelude::*;

    /// IBTA 9.7.2: a PSN has 24 bits and counts on from 0 after the highest.
    #[test]
    fn wraps_at_24_bits() {
        assert_eq!(Psn::new(0xffff_ffff).get(), 0xff_ffff);
        assert_eq!(Psn::new(0xff_ffff).next(), Psn::ZERO);
        assert_eq!(Psn::ZERO.prev().get(), 0xff_ffff);
        assert_eq!(Psn::new(0xff_fff0).add(0x20).get(), 0x10);
        assert_eq!(Psn::new(0x10).sub(0x20).get(), 0xff_fff0);
        assert_eq!(Psn::new(5).add(u32::MAX), Psn::new(4));
        assert_eq!(Psn::new(5).sub(u32::MAX), Psn::new(6));
    }

    /// IBTA 9.7.3.1: two PSNs that are less than half of the circle apart have a known order.
    #[test]
    fn distance_at_the_edges() {
        let half = Psn::HALF as i32;
        assert_eq!(Psn::new(0).distance(Psn::new(0xff_ffff)), 1);
        assert_eq!(Psn::new(0xff_ffff).distance(Psn::new(0)), -1);
        assert_eq!(Psn::new(Psn::HALF).distance(Psn::ZERO), -half);
        assert_eq!(Psn::ZERO.distance(Psn::new(Psn::HALF)), -half);
        assert_eq!(Psn::new(Psn::HALF - 1).distance(Psn::ZERO), half - 1);
    }

    #[test]
    fn a_psn_is_neither_before_nor_after_itself() {
        for value in [0, 1, Psn::HALF, Psn::MASK] {
            let psn = Psn::new(value);
            assert!(!psn.is_before(psn) && !psn.is_after(psn));
            assert!(psn.is_before(psn.next()) && psn.is_after(psn.prev()));
        }
    }

    /// IBTA 9.7.2: the PSNs of one message may go on from the highest to 0.
    #[test]
    fn within_spans_the_wrap() {
        let first = Psn::new(0xff_fffe);
        assert!(Psn::new(0xff_fffe).is_within(first, 4));
        assert!(Psn::new(1).is_within(first, 4));
        assert!(!Psn::new(2).is_within(first, 4));
        assert!(!Psn::new(0xff_fffd).is_within(first, 4));
        assert!(!first.is_within(first, 0));
    }

    proptest! {
        /// IBTA 9.7.2: PSNs are counted modulo 2^24.
        #[test]
        fn add_sub_and_distance_agree(a: u32, n: u32) {
            let a = Psn::new(a);
            prop_assert!(a.get() <= Psn::MASK);
            prop_assert_eq!(a.add(n).sub(n), a);
            let d = a.add(n).distance(a);
            prop_assert_eq!(d as u32 & Psn::MASK, n & Psn::MASK);
            prop_assert!((-(Psn::HALF as i32)..Psn::HALF as i32).contains(&d));
            prop_assert_eq!(a.add(n).offset_from(a), n & Psn::MASK);
        }

        /// IBTA 9.7.3.1: of two PSNs that are less than half of the circle apart, one comes first.
        #[test]
        fn order_is_antisymmetric(a: u32, b: u32) {
            let (a, b) = (Psn::new(a), Psn::new(b));
            // If they are exactly half a circle apart, each is before the other.
            prop_assume!(a.offset_from(b) != Psn::HALF);
            prop_assert_eq!(a.distance(b), -b.distance(a));
            prop_assert_eq!(a.is_before(b), b.is_after(a));
        }
    }
}
