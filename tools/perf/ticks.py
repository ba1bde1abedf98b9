# SPDX-License-Identifier: GPL-2.0
"""How a program in the guest speaks to the plugin that counts instructions (tools/profile): by a
NOP whose displacement is a magic number. Where there is no plugin it does nothing. ticks.c does the
same for programs that are not in Python.
"""

import ctypes
import mmap
import os

# As in tools/profile/magic.h.
MAGIC, SERIES, TICK = 0x0E5E, 0, 1
MOST = 0xFFF

# Where the programs of other projects get their ticks from, if instructions are counted.
PRELOAD = "/oxe/perf/libticks.so"


def execute(*words):
    """Executes these NOPs, one after another."""
    code = b"".join(b"\x0f\x1f\x80" + word.to_bytes(4, "little") for word in words) + b"\xc3"
    size = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, protection)
    page.write(code)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def word(command, argument=0):
    return MAGIC << 16 | command << 12 | argument


def first(run=0):
    """The requests that count begin here. This process was started for a series, or for as many as
    it has runs."""
    execute(word(SERIES, int(os.environ.get("OXE_SERIES", "0")) + run))
    execute(word(TICK))


def last(count):
    """So many requests have completed since first()."""
    execute(*[word(TICK, MOST)] * (count // MOST), word(TICK, count % MOST))
