// SPDX-License-Identifier: GPL-2.0

//! The header of a ring.

abi! {
    /// `struct rxe_queue_buf`, up to its elements. The two indices have cache lines of their own.
    ///
    /// The header is never copied as a whole: the offsets of its fields and its size are used.
    pub(crate) struct RxeQueueBuf = rxe_queue_buf..data {
        /// log2 of the distance between two elements in bytes, for librxe to read.
        pub(crate) log2_elem_size: u32,
        /// The number of elements, a power of two, minus one, for librxe to read.
        pub(crate) index_mask: u32,
        pub(crate) pad_1: [u32; 30],
        /// The index of the element that is written next, masked.
        pub(crate) producer_index: u32,
        pub(crate) pad_2: [u32; 31],
        /// The index of the element that is read next, masked.
        pub(crate) consumer_index: u32,
        pub(crate) pad_3: [u32; 31],
    }
}

#[cfg(test)]
mod tests {
    use super::RxeQueueBuf;
    use core::mem::{offset_of, size_of};

    #[test]
    fn the_fields_are_where_the_documentation_says() {
        assert_eq!(offset_of!(RxeQueueBuf, log2_elem_size), 0);
        assert_eq!(offset_of!(RxeQueueBuf, index_mask), 4);
        assert_eq!(offset_of!(RxeQueueBuf, producer_index), 128);
        assert_eq!(offset_of!(RxeQueueBuf, consumer_index), 256);
        assert_eq!(size_of::<RxeQueueBuf>(), 384);
    }
}
