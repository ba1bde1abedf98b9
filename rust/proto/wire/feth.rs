// SPDX-License-Identifier: GPL-2.0

//! The FLUSH extended transport header, 4 bytes: what a FLUSH guarantees, and for which memory
//! (IBTA annex A19.4.1).

use super::HeaderRepr;
use zerocopy::byteorder::big_endian::U32;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The placement type that makes earlier accesses visible to all processors and devices.
pub const PLACEMENT_GLOBAL: u8 = 1 << 0;
/// The placement type that makes earlier accesses persistent.
pub const PLACEMENT_PERSISTENT: u8 = 1 << 1;
/// The selectivity level of a range of addresses.
pub const SELECT_RANGE: u8 = 0;
/// The selectivity level of a whole memory region.
pub const SELECT_REGION: u8 = 1;

/// The bits of the placement type, and the place of the selectivity level and its bits.
const PLACEMENT: u8 = 0xf;
const SELECTIVITY_SHIFT: u32 = 4;
const SELECTIVITY: u8 = 3;

/// The bytes of a FLUSH extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Feth {
    word: U32,
}

/// The fields of a FLUSH extended transport header. They are not checked: the values may be
/// reserved, in which case the responder refuses the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FethRepr {
    placement: u8,
    selectivity: u8,
}

impl FethRepr {
    /// A header with these flags ([`PLACEMENT_GLOBAL`], [`PLACEMENT_PERSISTENT`]) and this level
    /// ([`SELECT_RANGE`], [`SELECT_REGION`]). `None` if a value does not fit in its field of 4 and
    /// 2 bits.
    #[inline]
    pub const fn new(placement: u8, selectivity: u8) -> Option<Self> {
        if placement > PLACEMENT || selectivity > SELECTIVITY {
            return None;
        }
        Some(FethRepr {
            placement,
            selectivity,
        })
    }

    /// Whether the placement type includes global visibility.
    #[inline]
    pub const fn is_global(self) -> bool {
        self.placement & PLACEMENT_GLOBAL != 0
    }

    /// Whether the placement type includes persistence.
    #[inline]
    pub const fn is_persistent(self) -> bool {
        self.placement & PLACEMENT_PERSISTENT != 0
    }

    /// Whether it is about a whole region, not about a range.
    #[inline]
    pub const fn is_whole_region(self) -> bool {
        self.selectivity == SELECT_REGION
    }

    /// Whether it asks for something, and for nothing that is reserved.
    #[inline]
    pub const fn is_valid(self) -> bool {
        let known = PLACEMENT_GLOBAL | PLACEMENT_PERSISTENT;
        self.placement != 0 && self.placement & !known == 0 && self.selectivity <= SELECT_REGION
    }
}

impl HeaderRepr for FethRepr {
    type View = Feth;

    #[inline]
    fn from_view(view: &Feth) -> Self {
        let word = view.word.get();
        FethRepr {
            placement: word as u8 & PLACEMENT,
            selectivity: (word >> SELECTIVITY_SHIFT) as u8 & SELECTIVITY,
        }
    }

    #[inline]
    fn to_view(&self) -> Feth {
        let selectivity = u32::from(self.selectivity & SELECTIVITY) << SELECTIVITY_SHIFT;
        Feth {
            word: U32::new(selectivity | u32::from(self.placement & PLACEMENT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    /// IBTA annex A19.4.1: the placement type is the lowest four bits of the FETH, and the
    /// selectivity level the two above.
    #[test]
    fn every_field_is_in_its_place() {
        let feth = |placement, selectivity| FethRepr::new(placement, selectivity).expect("fits");
        check(feth(PLACEMENT_GLOBAL, SELECT_RANGE), &[0, 0, 0, 0x01]);
        check(feth(PLACEMENT_PERSISTENT, SELECT_REGION), &[0, 0, 0, 0x12]);
        check(feth(0xc, 2), &[0, 0, 0, 0x2c]);
        assert_eq!(FethRepr::new(0x10, 0), None);
        assert_eq!(FethRepr::new(1, 4), None);
    }

    /// IBTA annex A19.4.1: the other bits of the FETH are reserved.
    #[test]
    fn reserved_bits_are_ignored() {
        let (feth, _) = FethRepr::parse(&[0xff, 0xff, 0xff, 0xd1]).expect("4 bytes");
        assert_eq!(FethRepr::new(PLACEMENT_GLOBAL, SELECT_REGION), Some(feth));
    }

    /// IBTA annex A19.4.1: two placement types, of which at least one must be asked for, and two
    /// selectivity levels are defined.
    #[test]
    fn the_other_values_are_reserved() {
        for placement in 0..16 {
            for selectivity in 0..4 {
                let feth = FethRepr::new(placement, selectivity).expect("fits");
                let valid = (1..4).contains(&placement) && selectivity < 2;
                assert_eq!(feth.is_valid(), valid, "{feth:?}");
                assert_eq!(feth.is_global(), placement % 2 == 1);
                assert_eq!(feth.is_persistent(), placement / 2 % 2 == 1);
                assert_eq!(feth.is_whole_region(), selectivity == 1);
            }
        }
    }
}
