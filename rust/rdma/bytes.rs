// SPDX-License-Identifier: GPL-2.0

//! Bytes in their place, and places for bytes: what is copied from and to memory that others may write at
//! any time. Both may lie in equal shares, as the payloads of a GSO super-packet do.

use super::copy::copy;
use core::marker::PhantomData;
use core::ops::Range;

/// Bytes in their place: the caller's own, or memory that others may write at any time. They can be copied
/// into other memory, and nothing else.
///
/// # Invariants
///
/// Byte `i` of them, for `i < len`, is number `j = skip + i` of the shares: at `at + j / each * step + j % each`,
/// which is valid for reading during `'a`. `skip` is less than `each`, and `each` is not 0.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    at: *const u8,
    len: usize,
    skip: usize,
    each: usize,
    step: usize,
    place: PhantomData<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// Bytes of the caller.
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
        // INVARIANT: all are in the first share.
        Bytes {
            at,
            len,
            skip: 0,
            each: usize::MAX,
            step: 0,
            place: PhantomData,
        }
    }

    /// Bytes of the caller in `count` shares: the first `each` bytes of `all`, and as many `step` bytes after
    /// the beginning of the one before. `None` if they are not all there.
    #[inline]
    pub(crate) fn shares(all: &'a [u8], each: usize, step: usize, count: usize) -> Option<Self> {
        let last = count.checked_sub(1)?.checked_mul(step)?;
        if each == 0 || last.checked_add(each)? > all.len() {
            return None;
        }
        // INVARIANT: the end of the last share is inside, and so are those of the others.
        Some(Bytes {
            at: all.as_ptr(),
            len: each.checked_mul(count)?,
            skip: 0,
            each,
            step,
            place: PhantomData,
        })
    }

    /// How many they are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Those in `range`, if they are all among these.
    #[inline]
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        let (mut at, mut skip) = (self.at, self.skip.wrapping_add(range.start));
        if skip >= self.each && len != 0 {
            let share = skip.checked_div(self.each)?;
            // SAFETY: the first byte of the part is in the share that begins there.
            at = unsafe { at.add(share.wrapping_mul(self.step)) };
            skip = skip.wrapping_sub(share.wrapping_mul(self.each));
        }
        // INVARIANT: by the comparison the part is inside, and it is counted from a share that it is in; an
        // empty one has no bytes.
        Some(Bytes {
            at,
            len,
            skip: if len == 0 { 0 } else { skip },
            ..*self
        })
    }

    /// Copies them.
    ///
    /// # Safety
    ///
    /// `to` is valid for writing [`Bytes::len`] bytes.
    #[inline]
    pub(super) unsafe fn copy_to(&self, to: *mut u8) {
        let (mut at, mut skip, mut done) = (self.at, self.skip, 0);
        loop {
            let n = self
                .each
                .wrapping_sub(skip)
                .min(self.len.wrapping_sub(done));
            // SAFETY: `to` by the requirement of this function; the rest of the share by the type's
            // invariant.
            unsafe { copy(at.add(skip), to.add(done), n) };
            done = done.wrapping_add(n);
            if done == self.len {
                return;
            }
            // SAFETY: there is another share, as there are more bytes.
            at = unsafe { at.add(self.step) };
            skip = 0;
        }
    }
}

/// Places for bytes, in shares: `each` bytes from byte `first` on, and as many `step` bytes after the
/// beginning of the one before. They are filled in order.
pub(crate) struct Places<'a> {
    out: &'a mut [u8],
    /// Where the next byte goes.
    at: usize,
    /// How many more go into this share.
    left: usize,
    each: usize,
    /// How many bytes are between two shares.
    gap: usize,
}

impl<'a> Places<'a> {
    /// Places in `out`, as many as it has.
    #[inline]
    pub(crate) fn new(out: &'a mut [u8], first: usize, each: usize, step: usize) -> Self {
        Places {
            out,
            at: first,
            left: each,
            each,
            gap: step.saturating_sub(each),
        }
    }

    /// Calls `fill` with the next `len` places, share by share. `None` if they are not that many, or `fill`
    /// says so.
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

    /// Copies bytes into the next places. `None` if there are not enough.
    #[inline]
    pub(crate) fn put(&mut self, bytes: Bytes<'_>) -> Option<()> {
        let mut rest = bytes;
        while rest.len != 0 {
            let out = self.next(rest.len)?;
            // INVARIANT: the first bytes of them are some of them.
            let part = Bytes {
                len: out.len(),
                ..rest
            };
            // SAFETY: there is place for as many bytes as there are.
            unsafe { part.copy_to(out.as_mut_ptr()) };
            rest = rest.part(part.len..rest.len)?;
        }
        Some(())
    }

    /// The next places, up to `len` of them and at least one; `None` if there are none.
    #[inline]
    fn next(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.left == 0 {
            self.at = self.at.checked_add(self.gap)?;
            self.left = self.each;
        }
        let n = len.min(self.left);
        let start = self.at;
        self.at = start.checked_add(n)?;
        self.left = self.left.wrapping_sub(n);
        self.out.get_mut(start..self.at).filter(|_| n != 0)
    }
}
