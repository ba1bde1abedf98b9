// SPDX-License-Identifier: GPL-2.0

//! Immediate data, 4 bytes, handed to the receiver's completion (IBTA 9.3.6).

use super::HeaderRepr;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes of an immediate data header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ImmDt {
    data: [u8; 4],
}

/// Immediate data. The four bytes are opaque and stay in wire order, as `imm_data` in the verbs is
/// on both ends: no layer may swap them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImmDtRepr {
    /// The bytes in wire order.
    pub data: [u8; 4],
}

impl HeaderRepr for ImmDtRepr {
    type View = ImmDt;

    #[inline]
    fn from_view(view: &ImmDt) -> Self {
        ImmDtRepr { data: view.data }
    }

    #[inline]
    fn to_view(&self) -> ImmDt {
        ImmDt { data: self.data }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    /// IBTA 9.3.6: immediate data are four bytes.
    #[test]
    fn the_bytes_are_not_swapped() {
        let data = [1, 2, 3, 4];
        check(ImmDtRepr { data }, &data);
    }
}
