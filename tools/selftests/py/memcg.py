# SPDX-License-Identifier: GPL-2.0
"""Objects of each kind made by a process in a small memory cgroup, until it is refused more.

The commands of uverbs are written by hand: the library would take memory of the process for each
object, and when that runs out the cgroup kills the process.
"""

import ctypes
import errno
import glob
import mmap
import os
import re
import signal
import socket
import struct
import time

import enums as e

from oxetest import (
    DEV_A,
    GID_A,
    LOCAL,
    SLOW,
    End,
    Host,
    connect,
    good,
    host_a,
    host_b,
    main,
    out,
    poll,
    same,
    shut,
)

CGROUP = os.environ["CGROUP"]
LIMIT = 64 << 20
MOST = LIMIT // 256  # an object takes more than that many bytes
ALLOC_PD, CREATE_AH, REG_MR, ALLOC_MW, CREATE_CQ, CREATE_QP, CREATE_SRQ = 3, 5, 9, 14, 18, 24, 32
KINDS = ("pd", "ah", "mr", "mw", "cq", "srq", "qp")


class Raw:
    """An opened device, and commands to it. Returns the first word of the answer, which is the
    handle."""

    def __init__(self, host):
        self.host, self.fd = host, host.ctx.cmd_fd
        self.answer = ctypes.create_string_buffer(256)
        self.at = ctypes.addressof(self.answer)
        self.buffer = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.pd = self.cq = 0

    def command(self, number, answer_bytes, layout, *values):
        body = struct.pack("<Q" + layout, self.at, *values)
        os.write(
            self.fd, struct.pack("<IHH", number, (8 + len(body)) // 4, answer_bytes // 4) + body
        )
        return struct.unpack_from("<I", self.answer)[0]

    def make(self, kind, gid):
        if kind == "pd":
            return self.command(ALLOC_PD, 4, "")
        if kind == "ah":
            values = 0, self.pd, 0, gid, 0, GID_A, 64, 0, 0, 0, 0, 0, 0, 1, 1, 0
            return self.command(CREATE_AH, 12, "QII16sIBBBBHBBBBBB", *values)
        if kind == "mr":
            return self.command(REG_MR, 12, "QQQII", self.memory, 4096, self.memory, self.pd, LOCAL)
        if kind == "mw":
            return self.command(ALLOC_MW, 8, "IB3x", self.pd, e.IBV_MW_TYPE_2)
        if kind == "cq":
            return self.command(CREATE_CQ, 24, "QIIiI", 0, 1, 0, -1, 0)
        if kind == "srq":
            return self.command(CREATE_SRQ, 40, "QIIII", 0, self.pd, 1, 1, 0)
        values = 0, self.pd, self.cq, self.cq, 0, 1, 1, 1, 1, 0, 0, e.IBV_QPT_RC, 0, 0
        return self.command(CREATE_QP, 64, "QIIIIIIIIIBBBB", *values)


def keep_memory():
    """Freed memory stays with the process, and there is some; memory shared with the parent is
    copied now."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    libc.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD
    block = libc.malloc(ctypes.c_size_t(4 << 20))
    ctypes.memset(block, 1, 4 << 20)
    libc.free(ctypes.c_void_p(block))
    same(libc.mlockall(3), 0, "mlockall")  # MCL_CURRENT | MCL_FUTURE


def hog(kind, group, gid, tell):
    """Makes objects until it fails; tells how many, and the errno; waits to be killed."""
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    keep_memory()
    raw = Raw(Host(DEV_A, GID_A))
    raw.pd = raw.make("pd", gid)
    raw.cq = raw.make("cq", gid)
    count, why = 0, 0
    while not why:
        try:
            raw.make(kind, gid)
            count += 1
            if count == MOST:
                why = errno.EDQUOT
        except OSError as error:
            why = error.errno
    tell(count, why)
    signal.pause()


def free_memory():
    """In bytes, after the kernel was asked to drop its caches. Each CPU keeps free pages, too: tens
    of megabytes where many have just been freed."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    with open("/proc/zoneinfo", encoding="ascii") as file:
        return (
            sum(map(int, re.findall(r"^ +(?:nr_free_pages|count:) +([0-9]+)", file.read(), re.M)))
            * mmap.PAGESIZE
        )


def number(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def entry(group, name, key):
    with open(f"{group}/{name}", encoding="ascii") as file:
        return int(dict(line.split() for line in file)[key])


def killed_for_memory(group):
    return entry(group, "memory.events", "oom_kill")


def held(group):
    """What the cgroup pays for, but for the page cache: the process was the first to read some
    pages of its libraries, which the kernel keeps when it has ended."""
    return number(f"{group}/memory.current") - entry(group, "memory.stat", "file")


def others_go_on(kind):
    """A process outside makes the same objects, and others, and uses them."""
    host = host_a()
    raw = Raw(host)
    raw.pd, raw.cq = raw.make("pd", None), raw.make("cq", None)
    raw.make(kind, GID)
    host.close()
    a, b = End(host_a()), End(host_b())
    connect(a, b)
    b.recv(b.sge(5000))
    a.send(e.IBV_WR_SEND, a.sge(5000))
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def purge_mappings():
    """The kernel takes back the address ranges of mappings late, many at a time, and kmemleak keeps
    two records of each until then: 30 MiB for the rings of 7,681 completion queues. A change of
    page attributes takes back all; so a socket gets a filter, whose program becomes read-only."""
    accept_all = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0xFFFF))
    program = struct.pack("@HP", 1, ctypes.addressof(accept_all))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.setsockopt(socket.SOL_SOCKET, 26, program)  # 26: SO_ATTACH_FILTER


def empty_quarantine():
    """KASAN keeps freed memory, charged as it was, until there is too much of it or its slab cache
    is shrunk."""
    if SLOW == 1:
        return
    purge_mappings()
    for path in glob.glob("/sys/kernel/slab/*/shrink"):
        with open(path, "w", encoding="ascii") as file:
            file.write("1")


def soon(what, held, most):
    """Memory that the kernel frees after grace periods, and by its own threads, is free soon, but
    for `most` bytes."""
    end = time.monotonic() + 200 * SLOW
    while (now := held()) >= most:
        if time.monotonic() > end:
            raise AssertionError(f"{what}: {now} bytes are held, {most} or more is too many")
        empty_quarantine()
        time.sleep(0.2 * SLOW)


def bounded(kind):
    group = f"{CGROUP}/{kind}"
    os.mkdir(group)
    with open(f"{group}/memory.max", "w", encoding="ascii") as file:
        file.write(str(LIMIT))
    others_go_on(kind)  # objects that are made only once are there now
    empty_quarantine()
    before = free_memory()
    # Writing to a pipe would take memory.
    shared = mmap.mmap(-1, 4096)
    shared[:8] = bytes(8)
    pid = os.fork()
    if not pid:
        try:
            hog(kind, group, GID, lambda *said: struct.pack_into("<II", shared, 0, *said))
        except BaseException as error:
            out(f"# {type(error).__name__}: {error}")
        os._exit(1)
    ended = False
    try:
        while not any(shared[4:8]) and not ended:
            time.sleep(0.1)
            ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        empty_quarantine()
        used, charged = before - free_memory(), number(f"{group}/memory.current")
        same(
            ended,
            False,
            f"the process ended (killed for want of memory: {killed_for_memory(group)})",
        )
        count, why = struct.unpack_from("<II", shared)
        out(
            f"# {kind}: {count}, {errno.errorcode[why]}; "
            f"{used >> 20} MiB gone, {charged >> 20} MiB charged"
        )
        same(count < MOST, True, f"a limit ({count} objects were made)")
        same(why, errno.ENOMEM, f"errno after {count} objects")
        same(charged > LIMIT - LIMIT // 8, True, f"{charged} bytes charged, of {LIMIT}")
        same(used < 3 * LIMIT, True, f"{used} bytes gone, {charged} charged")
        same(killed_for_memory(group), 0, "kills")
        others_go_on(kind)
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    soon("the cgroup gets its memory back", lambda: held(group), LIMIT // 16)
    soon("so does the machine", lambda: before - free_memory(), LIMIT // 4)
    os.rmdir(group)


host = host_a()
GID = bytes(
    int(part, 16) >> shift & 255 for part in host.gid_value().split(":") for shift in (8, 0)
)
host.close()
CASES = [
    (f"a process is bounded in its objects of kind {kind.upper()}", bounded, kind) for kind in KINDS
]

if __name__ == "__main__":
    main(CASES)
