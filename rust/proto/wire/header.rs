// SPDX-License-Identifier: GPL-2.0

//! The common interface of the headers: a fixed size, a view of the bytes, and a representation of
//! their meaning.

use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A header of fixed size. Every bit pattern of it can be read.
///
/// The base header is not one of these: it has an opcode and a version that may be wrong.
pub trait HeaderRepr: Copy {
    /// The header's bytes with names.
    type View: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + 'static;

    /// Length of the header in bytes.
    const LEN: usize = size_of::<Self::View>();

    /// The meaning of the bytes. Reserved bits are ignored, as IBTA asks of a receiver.
    fn from_view(view: &Self::View) -> Self;

    /// The bytes of the meaning, reserved bits zero.
    fn to_view(&self) -> Self::View;

    /// Reads the header at the start of `bytes`; returns it and the bytes after it, or `None` when
    /// `bytes` is too short.
    #[inline]
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (view, rest) = Self::View::ref_from_prefix(bytes).ok()?;
        Some((Self::from_view(view), rest))
    }

    /// Writes the header to the start of `out`; returns the rest of `out`. When `out` is too short,
    /// writes nothing and returns `None`.
    #[inline]
    fn emit<'a>(&self, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (head, rest) = Self::View::mut_from_prefix(out).ok()?;
        *head = self.to_view();
        Some(rest)
    }
}

/// Checks shared by the tests of all headers.
#[cfg(test)]
pub(super) mod testing {
    use super::HeaderRepr;
    use core::fmt::Debug;

    /// Checks that `repr` is `bytes` on the wire, both for reading and for writing, and that a
    /// shorter slice is refused.
    pub(crate) fn check<R: HeaderRepr + Debug + PartialEq>(repr: R, bytes: &[u8]) {
        assert_eq!(bytes.len(), R::LEN);
        let mut longer = bytes.to_vec();
        longer.push(0xa5);
        let (read, rest) = R::parse(&longer).expect("long enough");
        assert_eq!(read, repr);
        assert_eq!(rest, &[0xa5]);
        let mut out = vec![0x5a; R::LEN + 2];
        assert_eq!(repr.emit(&mut out).expect("long enough").len(), 2);
        assert_eq!(&out[..R::LEN], bytes);
        assert_eq!(&out[R::LEN..], &[0x5a, 0x5a]);
        for len in 0..R::LEN {
            assert!(
                R::parse(&bytes[..len]).is_none(),
                "{len} bytes suffice to read"
            );
            let mut short = vec![0x5a; len];
            assert!(
                repr.emit(&mut short).is_none(),
                "{len} bytes suffice to write"
            );
            assert!(
                short.iter().all(|&b| b == 0x5a),
                "a refused write left a trace"
            );
        }
    }
}
