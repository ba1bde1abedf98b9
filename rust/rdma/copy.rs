// SPDX-License-Identifier: GPL-2.0

//! Copying between memory that other contexts may write concurrently.

use core::ptr;

/// The length in bytes from which a string instruction is worth its start-up cost.
const STRING: usize = 256;

/// Copies `len` bytes. If source and destination overlap, it is unspecified how often each byte is
/// written.
///
/// A concurrent writer races with this copy as with `copy_from_user`: bytes have no invalid values,
/// and the copy infers nothing from them.
///
/// # Safety
///
/// `from` is valid for reading `len` bytes, and `to` for writing them.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if cfg!(all(CONFIG_X86_64, not(CONFIG_KASAN))) && len >= STRING {
        // SAFETY: by the requirement of this function.
        unsafe { copy_string(from, to, len) };
    } else {
        // SAFETY: likewise.
        unsafe { ptr::copy(from, to, len) };
    }
}

/// Copies eight bytes at a time with one string instruction. The kernel's memcpy uses one only on
/// processors that copy single bytes as fast.
///
/// # Safety
///
/// As for [`copy`].
#[cfg(CONFIG_X86_64)]
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    let (mut from, mut to) = (from, to);
    // SAFETY: the instruction reads and writes `len / 8` times 8 bytes, so it stays within `len`.
    // It goes upwards, as the direction flag is clear in all compiled code. It needs no alignment.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") len / 8 => _,
            inout("rsi") from,
            inout("rdi") to,
            options(nostack, preserves_flags),
        );
    }
    if len % 8 != 0 {
        // SAFETY: the remaining bytes are the last of the `len` bytes of both.
        unsafe { ptr::copy(from, to, len % 8) };
    }
}

#[cfg(not(CONFIG_X86_64))]
use ptr::copy as copy_string;
