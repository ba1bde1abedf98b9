// SPDX-License-Identifier: GPL-2.0

//! The datagram extended transport header, 8 bytes: the source QP and the Q_Key of a UD packet
//! (IBTA 9.3.1).

use super::{HeaderRepr, Qpn};
use zerocopy::byteorder::big_endian::U32;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes of a datagram extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Deth {
    qkey: U32,
    /// Eight reserved bits, source QP.
    src_qp: U32,
}

/// The fields of a datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DethRepr {
    /// The key that the receiving QP must hold.
    pub qkey: u32,
    /// The source QP, to which a reply goes.
    pub src_qp: Qpn,
}

impl HeaderRepr for DethRepr {
    type View = Deth;

    #[inline]
    fn from_view(view: &Deth) -> Self {
        DethRepr {
            qkey: view.qkey.get(),
            src_qp: Qpn::new(view.src_qp.get()),
        }
    }

    #[inline]
    fn to_view(&self) -> Deth {
        Deth {
            qkey: U32::new(self.qkey),
            src_qp: U32::new(self.src_qp.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    const EXAMPLE: DethRepr = DethRepr {
        qkey: 0x8001_0000,
        src_qp: Qpn::new(0x123456),
    };

    /// IBTA 9.3.1: the DETH is the Q_Key, a reserved byte and the source QP.
    #[test]
    fn every_field_is_in_its_place() {
        check(EXAMPLE, &[0x80, 1, 0, 0, 0, 0x12, 0x34, 0x56]);
    }

    /// IBTA 9.3.1: a receiver ignores the reserved byte.
    #[test]
    fn the_reserved_byte_is_ignored() {
        let bytes = [0x80, 1, 0, 0, 0xff, 0x12, 0x34, 0x56];
        assert_eq!(DethRepr::parse(&bytes), Some((EXAMPLE, &[][..])));
    }
}
