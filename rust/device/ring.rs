// SPDX-License-Identifier: GPL-2.0

//! The ring that librxe and the driver share: a header ([`RxeQueueBuf`]), and elements behind it.
//!
//! A process may write any byte of it at any time. The driver therefore keeps the sizes itself and
//! never reads those in the header. It masks an index that it reads from the ring, and copies an
//! element out once before it looks at it. It keeps its own index here and only publishes it in the
//! ring. A ring of `slots` elements holds `slots - 1`, as equal indices mean that it is empty.
//! Kernel consumers use the same ring in memory that no process maps.

use super::uabi::ring::RxeQueueBuf;
use crate::rdma::shared::SharedBuf;
use core::mem::{offset_of, size_of};
use kernel::prelude::*;
use kernel::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const LOG2_ELEM_SIZE: usize = offset_of!(RxeQueueBuf, log2_elem_size);
const INDEX_MASK: usize = offset_of!(RxeQueueBuf, index_mask);
const PRODUCER: usize = offset_of!(RxeQueueBuf, producer_index);
const CONSUMER: usize = offset_of!(RxeQueueBuf, consumer_index);
const ELEMENTS: usize = size_of::<RxeQueueBuf>();

/// The most elements of a ring: a bound for arithmetic. The limits of the device are lower.
const MAX_SLOTS: u32 = 1 << 24;

/// One ring. The caller serialises its accesses: each side, producer and consumer, has one user at
/// a time.
///
/// A clone is the same ring: a queue keeps one, the kernel consumer's producer and the payload of
/// an inline request have others. Memory safety does not rest on the serialisation. Two users of a
/// side could overwrite each other's elements, which any process does to its own ring at will.
#[derive(Clone)]
pub(crate) struct Ring {
    buf: Arc<SharedBuf>,
    stride_shift: u32,
    mask: u32,
}

impl Ring {
    /// Makes an empty ring for at least `capacity` elements of `elem` bytes. It is mappable by a
    /// process if `user`.
    ///
    /// Process context. EINVAL if the sizes are beyond any limit, ENOMEM.
    pub(crate) fn new(capacity: u32, elem: usize, user: bool) -> Result<Self> {
        let slots = capacity
            .checked_add(1)
            .map(|n| n.max(2))
            .and_then(u32::checked_next_power_of_two)
            .filter(|n| *n <= MAX_SLOTS)
            .ok_or(EINVAL)?;
        let stride = elem.checked_next_power_of_two().ok_or(EINVAL)?;
        let bytes = (slots as usize)
            .checked_mul(stride)
            .and_then(|n| n.checked_add(ELEMENTS))
            .ok_or(EINVAL)?;
        let ring = Ring {
            buf: SharedBuf::new(bytes, user)?,
            stride_shift: stride.trailing_zeros(),
            mask: slots.wrapping_sub(1),
        };
        ring.buf
            .store_release_u32(LOG2_ELEM_SIZE, ring.stride_shift)
            .ok_or(EINVAL)?;
        ring.buf
            .store_release_u32(INDEX_MASK, ring.mask)
            .ok_or(EINVAL)?;
        Ok(ring)
    }

    /// The memory of the ring, to be mapped by a process.
    pub(crate) fn buf(&self) -> &Arc<SharedBuf> {
        &self.buf
    }

    /// How many elements it can hold.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask
    }

    /// The size of an element in bytes.
    pub(crate) fn stride(&self) -> usize {
        1 << (self.stride_shift & 31)
    }

    /// The producer's index as it stands in the ring, masked.
    pub(crate) fn producer(&self) -> u32 {
        self.buf.load_acquire_u32(PRODUCER).unwrap_or(0) & self.mask
    }

    /// The consumer's index as it stands in the ring, masked.
    pub(crate) fn consumer(&self) -> u32 {
        self.buf.load_acquire_u32(CONSUMER).unwrap_or(0) & self.mask
    }

    /// How many elements are between the indices `from` and `to`.
    pub(crate) fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    /// Publishes the producer's index, with release semantics for the elements written before.
    pub(crate) fn set_producer(&self, index: u32) {
        let _ = self.buf.store_release_u32(PRODUCER, index & self.mask);
    }

    /// Publishes the consumer's index: elements before it may be used again.
    pub(crate) fn set_consumer(&self, index: u32) {
        let _ = self.buf.store_release_u32(CONSUMER, index & self.mask);
    }

    /// The offset in the buffer of byte `offset` of element `index`. `None` if the `len` bytes from
    /// there are not all inside the element.
    fn at(&self, index: u32, offset: usize, len: usize) -> Option<usize> {
        if offset.checked_add(len)? > self.stride() {
            return None;
        }
        ((index & self.mask) as usize)
            .checked_shl(self.stride_shift)?
            .checked_add(ELEMENTS)?
            .checked_add(offset)
    }

    /// Copies bytes of element `index` out. `None` if they are not all inside the element.
    pub(crate) fn read(&self, index: u32, offset: usize, out: &mut [u8]) -> Option<()> {
        let at = self.at(index, offset, out.len())?;
        self.buf.copy_out(at, out)
    }

    /// Copies a `T` out of element `index`. `None` if it is not all inside the element.
    #[inline]
    pub(crate) fn load<T: FromBytes + IntoBytes>(&self, index: u32, offset: usize) -> Option<T> {
        let mut value = T::new_zeroed();
        self.read(index, offset, value.as_mut_bytes())?;
        Some(value)
    }

    /// Copies bytes into element `index`. `None` if they would not all be inside the element.
    pub(crate) fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> Option<()> {
        let at = self.at(index, offset, bytes.len())?;
        self.buf.copy_in(at, bytes)
    }

    /// Copies a `T` into element `index`. `None` if it would not all be inside the element.
    #[inline]
    pub(crate) fn store<T>(&self, index: u32, offset: usize, value: &T) -> Option<()>
    where
        T: IntoBytes + Immutable,
    {
        self.write(index, offset, value.as_bytes())
    }
}
