// SPDX-License-Identifier: GPL-2.0

//! The headers of atomic operations: AtomicETH, 28 bytes, in the request, and AtomicAckETH, 8
//! bytes, in the response (IBTA 9.3.4, 9.5.2).

use super::HeaderRepr;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes of an atomic extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AtomicEth {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

/// The fields of an atomic extended transport header. They are not checked: `va` may be unaligned,
/// in which case the responder refuses the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEthRepr {
    /// Address of the 8-byte operand.
    pub va: u64,
    /// Key of the remote region or window.
    pub rkey: u32,
    /// The value to store (compare and swap) or to add (fetch and add).
    pub swap_add: u64,
    /// The expected value for a swap; ignored for fetch and add.
    pub compare: u64,
}

impl HeaderRepr for AtomicEthRepr {
    type View = AtomicEth;

    #[inline]
    fn from_view(view: &AtomicEth) -> Self {
        AtomicEthRepr {
            va: view.va.get(),
            rkey: view.rkey.get(),
            swap_add: view.swap_add.get(),
            compare: view.compare.get(),
        }
    }

    #[inline]
    fn to_view(&self) -> AtomicEth {
        AtomicEth {
            va: U64::new(self.va),
            rkey: U32::new(self.rkey),
            swap_add: U64::new(self.swap_add),
            compare: U64::new(self.compare),
        }
    }
}

/// The bytes of an atomic acknowledge extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AtomicAckEth {
    original: U64,
}

/// The fields of an atomic acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicAckEthRepr {
    /// The operand as it was before the operation.
    pub original: u64,
}

impl HeaderRepr for AtomicAckEthRepr {
    type View = AtomicAckEth;

    #[inline]
    fn from_view(view: &AtomicAckEth) -> Self {
        AtomicAckEthRepr {
            original: view.original.get(),
        }
    }

    #[inline]
    fn to_view(&self) -> AtomicAckEth {
        AtomicAckEth {
            original: U64::new(self.original),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    /// IBTA 9.3.4: the AtomicETH is the address, the key, the swap or add operand and the compare
    /// operand.
    #[test]
    fn request_fields_are_in_their_places() {
        check(
            AtomicEthRepr {
                va: 0x0102_0304_0506_0708,
                rkey: 0x1112_1314,
                swap_add: 0x2122_2324_2526_2728,
                compare: 0x3132_3334_3536_3738,
            },
            &[
                1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
            ],
        );
    }

    /// IBTA 9.5.2: the AtomicAckETH is the original value.
    #[test]
    fn the_answer_is_one_big_endian_word() {
        check(
            AtomicAckEthRepr {
                original: 0x0102_0304_0506_0708,
            },
            &[1, 2, 3, 4, 5, 6, 7, 8],
        );
    }
}
