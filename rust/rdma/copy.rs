// SPDX-License-Identifier: GPL-2.0

//! Copying between memory that others may write at the same time.

use core::ptr;

/// How many bytes are worth the start of a string instruction.
const STRING: usize = 256;

/// Copies `len` bytes. Where source and target overlap, it is not said which of the bytes are
/// written how often.
///
/// Whoever writes them at the same time races with this as with `copy_from_user`: bytes have no
/// invalid values, and nothing is inferred from them on the way.
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

/// Copies by eight bytes with one instruction: the kernel's memcpy does so only on processors that
/// are as fast by single bytes.
///
/// # Safety
///
/// As for [`copy`].
#[cfg(CONFIG_X86_64)]
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    let (mut from, mut to) = (from, to);
    // SAFETY: the instruction reads and writes 8 bytes as often as they fit into `len`, upwards, as
    // the direction flag is clear in all compiled code, and needs no alignment.
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
        // SAFETY: what is left is at the end of both.
        unsafe { ptr::copy(from, to, len % 8) };
    }
}

#[cfg(not(CONFIG_X86_64))]
use ptr::copy as copy_string;
