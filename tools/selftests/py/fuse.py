# SPDX-License-Identifier: GPL-2.0
"""A file system (FUSE) with one file, whose daemon never answers a READ: an access to a page of it
never ends while the daemon lives."""

import ctypes
import os
import signal
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
DEVICE = "/dev/fuse"
# Opcodes of linux/fuse.h.
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
INTERRUPT, BATCH_FORGET = 36, 42
ENOSYS = 38
ASYNC_READ = 1
ROOT, FILE = 1, 2
NAME = "file"


def attributes(node, size):
    """struct fuse_attr: a directory for the root, a file else."""
    mode, links = (0o040755, 2) if node == ROOT else (0o100666, 1)
    times = (0, 0, 0, 0, 0, 0)
    return struct.pack("<6Q10I", node, size, 0, *times, mode, links, 0, 0, 0, 4096, 0)


def answer(fd, unique, body=b"", error=0):
    os.write(fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


def serve(fd, size, waits_in_readahead):
    """The daemon. Readers wait for a page that readahead locked, or for the answer to a READ of
    their own that the daemon has taken: no signal ends the latter."""
    flags, ahead = (ASYNC_READ, 131072) if waits_in_readahead else (0, 0)
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == INIT:
            # Version 7.31; max_background is large, so that READs of many pages are under way.
            limits = (60000, 60000, 131072, 1, 32)
            answer(fd, unique, struct.pack("<4I2H2IH34x", 7, 31, ahead, flags, *limits))
        elif opcode == LOOKUP:
            entry = struct.pack("<4Q2I", FILE, 0, 3600, 3600, 0, 0)
            answer(fd, unique, entry + attributes(FILE, size))
        elif opcode == GETATTR:
            answer(fd, unique, struct.pack("<QII", 3600, 0, 0) + attributes(node, size))
        elif opcode == OPEN:
            answer(fd, unique, struct.pack("<QII", 1, 2, 0))  # FOPEN_KEEP_CACHE
        elif opcode in (READ, FORGET, BATCH_FORGET, INTERRUPT):
            pass
        else:
            answer(fd, unique, error=0 if opcode in (FLUSH, RELEASE) else ENOSYS)


class Silent:
    """The mounted file system, and its daemon."""

    def __init__(self, where, size, waits_in_readahead):
        self.where = where
        self.path = os.path.join(where, NAME)
        os.makedirs(where, exist_ok=True)
        fd = os.open(DEVICE, os.O_RDWR)
        options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        names = (b"silent", where.encode(), b"fuse")
        if LIBC.mount(*names, 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        self.pid = os.fork()
        if not self.pid:
            try:
                serve(fd, size, waits_in_readahead)
            except OSError as error:
                sys.stderr.write(f"the daemon of {where}: {error}\n")
            os._exit(0)
        os.close(fd)

    def close(self):
        """The daemon ends, and with it all accesses."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        LIBC.umount2(self.where.encode(), 2)  # MNT_DETACH
