# SPDX-License-Identifier: GPL-2.0
"""Regions that are registered anew: address, access and PD, each alone and together, all or nothing.

librxe of rdma-core 56 has no such verb, so the command is made by hand.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct

import enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD

from oxetest import (
    ALL_ACCESS,
    LOCAL,
    End,
    connect,
    errno_of,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    status,
)

RDMA_VERBS_IOCTL = 0xC0181B01
DRIVER_RXE = 14
REREG_MR = 11  # IB_USER_VERBS_CMD_REREG_MR
ADDRESS, DOMAIN, ACCESS = 1, 2, 4  # enum ib_mr_rereg_flags
WRITE = LOCAL | e.IBV_ACCESS_REMOTE_WRITE
PERSISTENT = e.IBV_ACCESS_FLUSH_PERSISTENT
SIZE = 8192


def rereg(host, mr, flags, start=0, length=0, iova=0, access=0, pd=None):
    """Sends the command by the ioctl. Returns lkey and rkey; the handle stays."""
    answer = ctypes.create_string_buffer(8)
    body = struct.pack(
        "<QIIQQQII",
        0,
        mr.handle,
        flags,
        start,
        length,
        iova or start,
        pd.handle if pd else 0,
        access,
    )
    body = ctypes.create_string_buffer(body, len(body))
    # struct ib_uverbs_attr for each of UVERBS_ATTR_CORE_IN, CORE_OUT and WRITE_CMD.
    attrs = (
        (0, len(body), 1, 0, ctypes.addressof(body)),
        (1, len(answer), 1, 0, ctypes.addressof(answer)),
        (2, 8, 1, 0, REREG_MR),
    )
    size = 24 + 16 * len(attrs)
    # struct ib_uverbs_ioctl_hdr: UVERBS_METHOD_INVOKE_WRITE of UVERBS_OBJECT_DEVICE.
    command = struct.pack("<HHHHQII", size, 0, 0, len(attrs), 0, DRIVER_RXE, 0)
    command += b"".join(struct.pack("<HHHHQ", *attr) for attr in attrs)
    fcntl.ioctl(host.ctx.cmd_fd, RDMA_VERBS_IOCTL, command)
    return struct.unpack("<II", answer.raw)


def peers():
    """An end with its peer, and a second pair of which the end has another PD."""
    a, b = End(host_a()), End(host_b())
    connect(a, b)
    first, b.host.pd = b.host.pd, PD(b.host.ctx)
    c, d = End(a.host), End(b.host)
    connect(c, d)
    b.host.pd, d.pd = first, b.host.pd
    return a, b, c, d


def write(end, address, key, text=b"w" * 16):
    """The status of a WRITE, after which the QP may be in error."""
    end.mr.write(text.decode(), len(text))
    end.send(e.IBV_WR_RDMA_WRITE, end.sge(len(text)), remote=(address, key))
    return status(poll(end.cq)[0])


def change_access():
    """Rights come and go. Memory that was pinned for reading can be written afterwards."""
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, 0)
    _, key = rereg(b.host, mr, ACCESS, access=WRITE)
    same(write(a, mr.buf, key), "SUCCESS", "WRITE after it was granted")
    same(mr.read(16, 0), b"w" * 16, "the bytes")
    _, key = rereg(b.host, mr, ACCESS, access=LOCAL)
    same(write(a, mr.buf, key), "REM_ACCESS_ERR", "WRITE after it was taken")
    shut(a, b)


def change_domain():
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, WRITE)
    old = mr.rkey
    _, key = rereg(b.host, mr, DOMAIN, pd=d.pd)
    same(write(c, mr.buf, key), "SUCCESS", "WRITE by way of the new PD")
    same(write(a, mr.buf, key), "REM_ACCESS_ERR", "by way of the old one")
    if old != key:
        same(write(c, mr.buf, old), "REM_ACCESS_ERR", "by the old key")
    mr.close()  # before its new PD
    shut(a, b)


def change_address():
    """Another place, which the peer names by other addresses."""
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, WRITE)
    memory = mmap.mmap(-1, 3 * SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    iova = 0x7000_0000_0000 + start % 4096
    _, key = rereg(b.host, mr, ADDRESS, start=start, length=3 * SIZE, iova=iova)
    same(write(a, iova + 3 * SIZE - 16, key), "SUCCESS", "WRITE to its end")
    same(memory[3 * SIZE - 16 :], b"w" * 16, "the bytes")
    same(write(a, iova + 3 * SIZE - 15, key), "REM_ACCESS_ERR", "one byte more")
    shut(a, b)


def change_all():
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, LOCAL)
    memory = mmap.mmap(-1, SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _, key = rereg(
        b.host, mr, ADDRESS | DOMAIN | ACCESS, start=start, length=SIZE, access=ALL_ACCESS, pd=d.pd
    )
    same(write(c, start, key), "SUCCESS", "WRITE")
    same(memory[:16], b"w" * 16, "the bytes")
    mr.close()  # before its new PD
    shut(a, b)


def refused():
    """A change that is refused leaves the region as it is."""
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, WRITE)
    hole = mmap.mmap(-1, SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(hole))
    closed = ctypes.CDLL(None).munmap(ctypes.c_void_p(start), ctypes.c_size_t(SIZE))
    same(closed, 0, "munmap")
    wrong = (
        ("no change", errno.EINVAL, {"flags": 0}),
        ("an unknown change", errno.EOPNOTSUPP, {"flags": 8}),
        ("memory that is not there", errno.EFAULT, {"flags": 1, "start": start, "length": SIZE}),
        ("no memory", errno.EINVAL, {"flags": 1, "start": mr.buf, "length": 0}),
        ("remote write without local write", errno.EINVAL, {"flags": 4, "access": 2}),
        ("persistence", errno.EOPNOTSUPP, {"flags": 4, "access": PERSISTENT}),
    )
    for what, want, change in wrong:
        same(errno_of(rereg, b.host, mr, **change), want, what)
        same(write(a, mr.buf, mr.rkey), "SUCCESS", f"WRITE after {what}")
    shut(a, b)


def of_another_process():
    """A process that was forked has other memory at the same addresses."""
    a, b, c, d = peers()
    mr = MR(b.host.pd, SIZE, LOCAL)
    pid = os.fork()
    if not pid:
        os._exit(errno_of(rereg, b.host, mr, ACCESS, access=WRITE))
    same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), errno.EINVAL, "the errno there")
    _, key = rereg(b.host, mr, ACCESS, access=WRITE)
    same(write(a, mr.buf, key), "SUCCESS", "WRITE after its own process changed it")
    shut(a, b)


CASES = [
    ("access", change_access),
    ("PD", change_domain),
    ("address", change_address),
    ("all three", change_all),
    ("refused", refused),
    ("of another process", of_another_process),
]

if __name__ == "__main__":
    main([(f"registered anew: {name}", function) for name, function in CASES])
