# SPDX-License-Identifier: GPL-2.0
"""Buffers far larger than the memory of the machine."""

import ctypes
import mmap
import os

from oxetest import same

MAP_FIXED = 0x10
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


def repeated(size, piece):
    """The address of `size` bytes: the same `piece` bytes of memory again and again."""
    fd = os.memfd_create("piece")
    os.ftruncate(fd, piece)
    access = mmap.PROT_READ | mmap.PROT_WRITE
    start = LIBC.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    for at in range(start, start + size, piece):
        same(LIBC.mmap(at, piece, access, mmap.MAP_SHARED | MAP_FIXED, fd, 0), at, "the place")
    os.close(fd)
    return start
