// SPDX-License-Identifier: GPL-2.0

//! CRC-32 as the kernel computes it, with the processor's instructions for it where they exist.

use crate::ffi;

/// Feeds `bytes` to a CRC-32 register (reflected, polynomial 0xedb88320) without inverting it
/// before or after. Any context.
#[inline]
pub(crate) fn crc32_le(register: u32, bytes: &[u8]) -> u32 {
    // SAFETY: the pointer is valid for reads of the length.
    unsafe { ffi::oxe_crc32_le(register, bytes.as_ptr(), bytes.len()) }
}
