// SPDX-License-Identifier: GPL-2.0

//! Sources and destinations of copies. Both may be strided, as the payloads of a GSO super-packet
//! are. A source may be memory that other contexts write at any time.

use super::copy::copy;
use core::marker::PhantomData;
use core::ops::Range;
use kernel::alloc::KVec;

/// The source of a copy: the caller's bytes, or memory that other contexts may write at any time.
/// It can only be copied into other memory.
///
/// # Invariants
///
/// Byte `i` of the source, for `i < len`, is byte `j = skip + i` of the chunks. It is at `at + j /
/// chunk * stride + j % chunk`, which is valid for reading during `'a`. `skip` is less than
/// `chunk`, and `chunk` is not 0.
#[derive(Clone, Copy)]
pub(crate) struct StridedSrc<'a> {
    at: *const u8,
    len: usize,
    skip: usize,
    chunk: usize,
    stride: usize,
    place: PhantomData<&'a [u8]>,
}

impl<'a> StridedSrc<'a> {
    /// A slice of the caller's.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice is valid for as long as it is borrowed.
        unsafe { Self::at(bytes.as_ptr(), bytes.len()) }
    }

    /// `len` bytes at `at`.
    ///
    /// # Safety
    ///
    /// They are valid for reading during `'a`.
    #[inline]
    pub(super) unsafe fn at(at: *const u8, len: usize) -> Self {
        // INVARIANT: all are in the first chunk.
        StridedSrc {
            at,
            len,
            skip: 0,
            chunk: usize::MAX,
            stride: 0,
            place: PhantomData,
        }
    }

    /// `count` chunks of `chunk` bytes of `all`, each beginning `stride` bytes after the one
    /// before. `None` if they are not all inside.
    #[inline]
    pub(crate) fn strided(
        all: &'a [u8],
        chunk: usize,
        stride: usize,
        count: usize,
    ) -> Option<Self> {
        let last = count.checked_sub(1)?.checked_mul(stride)?;
        if chunk == 0 || last.checked_add(chunk)? > all.len() {
            return None;
        }
        // INVARIANT: the end of the last chunk is inside, and so are those of the others.
        Some(StridedSrc {
            at: all.as_ptr(),
            len: chunk.checked_mul(count)?,
            skip: 0,
            chunk,
            stride,
            place: PhantomData,
        })
    }

    /// The number of bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes in `range`, if the source has all of them.
    #[inline]
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        let (mut at, mut skip) = (self.at, self.skip.wrapping_add(range.start));
        if skip >= self.chunk && len != 0 {
            let index = skip.checked_div(self.chunk)?;
            // SAFETY: the first byte of the part is in the chunk that begins there.
            at = unsafe { at.add(index.wrapping_mul(self.stride)) };
            skip = skip.wrapping_sub(index.wrapping_mul(self.chunk));
        }
        // INVARIANT: by the comparison the part is inside, and `skip` is counted from the chunk
        // where the part begins; an empty part has no bytes.
        Some(StridedSrc {
            at,
            len,
            skip: if len == 0 { 0 } else { skip },
            ..*self
        })
    }

    /// Appends all bytes to `to`. `None` if it has no room for them.
    #[inline]
    pub(crate) fn append_to(&self, to: &mut KVec<u8>) -> Option<()> {
        let room = to.spare_capacity_mut();
        if room.len() < self.len {
            return None;
        }
        // SAFETY: the vector has room for so many bytes.
        unsafe { self.copy_to(room.as_mut_ptr().cast()) };
        // SAFETY: the bytes were written, and fit.
        unsafe { to.inc_len(self.len) };
        Some(())
    }

    /// Copies all bytes to `to`.
    ///
    /// # Safety
    ///
    /// `to` is valid for writing [`StridedSrc::len`] bytes.
    #[inline]
    pub(super) unsafe fn copy_to(&self, to: *mut u8) {
        let (mut at, mut skip, mut done) = (self.at, self.skip, 0);
        loop {
            let n = self
                .chunk
                .wrapping_sub(skip)
                .min(self.len.wrapping_sub(done));
            // SAFETY: `to` by the requirement of this function; the rest of the chunk by the type's
            // invariant.
            unsafe { copy(at.add(skip), to.add(done), n) };
            done = done.wrapping_add(n);
            if done == self.len {
                return;
            }
            // SAFETY: there is another chunk, as there are more bytes.
            at = unsafe { at.add(self.stride) };
            skip = 0;
        }
    }
}

/// The destination of a copy: chunks of `chunk` bytes, the first at byte `first`, each beginning
/// `stride` bytes after the one before. They are filled in order.
pub(crate) struct StridedDst<'a> {
    out: &'a mut [u8],
    /// Where the next byte goes.
    at: usize,
    /// How many more bytes fit into this chunk.
    left: usize,
    chunk: usize,
    /// The bytes between two chunks.
    gap: usize,
}

impl<'a> StridedDst<'a> {
    /// The chunks of `out`, as many as it has.
    #[inline]
    pub(crate) fn new(out: &'a mut [u8], first: usize, chunk: usize, stride: usize) -> Self {
        StridedDst {
            out,
            at: first,
            left: chunk,
            chunk,
            gap: stride.saturating_sub(chunk),
        }
    }

    /// Calls `fill` with the next `len` bytes, chunk by chunk. `None` if there are not that many,
    /// or `fill` returns it.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        len: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<()>,
    ) -> Option<()> {
        let mut rest = len;
        while rest != 0 {
            let out = self.next(rest)?;
            rest = rest.wrapping_sub(out.len());
            fill(out)?;
        }
        Some(())
    }

    /// Copies `bytes` to the next bytes of the chunks. `None` if there are not enough.
    #[inline]
    pub(crate) fn put(&mut self, bytes: StridedSrc<'_>) -> Option<()> {
        let mut rest = bytes;
        while rest.len != 0 {
            let out = self.next(rest.len)?;
            // INVARIANT: the first bytes of a source are a source.
            let part = StridedSrc {
                len: out.len(),
                ..rest
            };
            // SAFETY: `out` has room for all bytes of `part`.
            unsafe { part.copy_to(out.as_mut_ptr()) };
            if part.len == rest.len {
                break;
            }
            rest = rest.part(part.len..rest.len)?;
        }
        Some(())
    }

    /// The next bytes, at most `len` and at least one; `None` if there are none.
    #[inline]
    fn next(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.left == 0 {
            self.at = self.at.checked_add(self.gap)?;
            self.left = self.chunk;
        }
        let n = len.min(self.left);
        let start = self.at;
        self.at = start.checked_add(n)?;
        self.left = self.left.wrapping_sub(n);
        self.out.get_mut(start..self.at).filter(|_| n != 0)
    }
}
