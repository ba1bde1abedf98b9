// SPDX-License-Identifier: GPL-2.0

//! The invalidate extended transport header, 4 bytes: the key that a SEND with invalidate
//! invalidates at the receiver (IBTA 9.3.7).

use super::HeaderRepr;
use zerocopy::byteorder::big_endian::U32;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes of an invalidate extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ieth {
    rkey: U32,
}

/// The fields of an invalidate extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IethRepr {
    /// Key of the region or window to invalidate at the receiver.
    pub rkey: u32,
}

impl HeaderRepr for IethRepr {
    type View = Ieth;

    #[inline]
    fn from_view(view: &Ieth) -> Self {
        IethRepr {
            rkey: view.rkey.get(),
        }
    }

    #[inline]
    fn to_view(&self) -> Ieth {
        Ieth {
            rkey: U32::new(self.rkey),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    /// IBTA 9.3.7: the IETH is the key, high byte first.
    #[test]
    fn the_key_is_big_endian() {
        check(IethRepr { rkey: 0x0102_0304 }, &[1, 2, 3, 4]);
    }
}
