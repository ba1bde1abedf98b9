// SPDX-License-Identifier: GPL-2.0

//! The RDMA extended transport header, 16 bytes: the range of the peer's memory that a READ or
//! WRITE accesses (IBTA 9.3.3), or an ATOMIC WRITE or FLUSH is about (IBTA annex A19.4).

use super::HeaderRepr;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The bytes of an RDMA extended transport header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Reth {
    va: U64,
    rkey: U32,
    dma_len: U32,
}

/// The fields of an RDMA extended transport header. They are not checked: the range may wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RethRepr {
    /// First byte of the range, in the address space of the region that `rkey` names.
    pub va: u64,
    /// Key of the remote region or window.
    pub rkey: u32,
    /// Length of the whole message in bytes, which may span many packets.
    pub dma_len: u32,
}

impl HeaderRepr for RethRepr {
    type View = Reth;

    #[inline]
    fn from_view(view: &Reth) -> Self {
        RethRepr {
            va: view.va.get(),
            rkey: view.rkey.get(),
            dma_len: view.dma_len.get(),
        }
    }

    #[inline]
    fn to_view(&self) -> Reth {
        Reth {
            va: U64::new(self.va),
            rkey: U32::new(self.rkey),
            dma_len: U32::new(self.dma_len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::testing::check;
    use super::*;

    /// IBTA 9.3.3: the RETH is the address, the key and the length of the whole message.
    #[test]
    fn every_field_is_in_its_place() {
        check(
            RethRepr {
                va: 0x0102_0304_0506_0708,
                rkey: 0x1112_1314,
                dma_len: 0x2122_2324,
            },
            &[
                1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
            ],
        );
    }
}
