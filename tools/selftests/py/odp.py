# SPDX-License-Identifier: GPL-2.0
"""On-demand paging: memory that is not pinned. Its pages come when they are needed and go when the
memory manager takes them back.

Cases look at the counter of missing pages, so that they are about faults. It counts packets that
are received; a packet that waits for its payload before it is sent is not counted.
"""

import ctypes
import mmap
import os
import random
import struct
import tempfile
import threading
import time

import enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE

from oxetest import (
    ALL_ACCESS,
    DEV_A,
    DEV_B,
    SLOW,
    End,
    ah_to,
    child,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    status,
    until,
)

ODP = ALL_ACCESS | e.IBV_ACCESS_ON_DEMAND
PAGE = 4096
SIZE = 64 * PAGE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.madvise.argtypes = LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
MAP_FIXED = 0x10


def check(result):
    if result in (-1, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Memory:
    """Pages of this process and a region of them."""

    def __init__(self, host, size=SIZE, access=ODP, file=None):
        self.host, self.size = host, size
        flags = mmap.MAP_SHARED if file else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        fd = file.fileno() if file else -1
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        self.at = check(LIBC.mmap(None, size, protection, flags, fd, 0))
        self.mr = MR(host.pd, size, access, address=self.at)

    def drop(self):
        """The pages go, and their bytes with them."""
        check(LIBC.madvise(self.at, self.size, mmap.MADV_DONTNEED))

    def protect(self, protection):
        check(LIBC.mprotect(self.at, self.size, protection))

    def unmap(self):
        check(LIBC.munmap(self.at, self.size))

    def map_again(self):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
        check(LIBC.mmap(self.at, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0))

    def fill(self, data, offset=0):
        ctypes.memmove(self.at + offset, data, len(data))

    def bytes(self, length=None, offset=0):
        return ctypes.string_at(self.at + offset, self.size if length is None else length)

    def sge(self, length=None, offset=0):
        return SGE(self.at + offset, self.size if length is None else length, self.mr.lkey)

    def remote(self, offset=0):
        return (self.at + offset, self.mr.rkey)


def pattern(length, seed):
    return random.Random(seed).randbytes(length)


def faults():
    """How many packets have found a page missing, on both hosts. ib_core reads the counters anew
    after 10 ms."""
    time.sleep(0.02)
    return sum(counters(device)["page_fault"] for device in {DEV_A, DEV_B})


def ends(**kw):
    """Two connected ends with memory on demand each."""
    a, b = End(host_a(), size=0), End(host_b(), size=0)
    connect(a, b, **kw)
    return a, b, Memory(a.host), Memory(b.host)


def sends():
    """A SEND whose receive is not there waits for it; the bytes arrive once."""
    a, b, source, sink = ends()
    for n, length in enumerate((1, PAGE, 5000, SIZE)):
        data = pattern(length, n)
        source.fill(data)
        sink.drop()
        before = faults()
        b.recv(sink.sge(), wr_id=n)
        a.send(e.IBV_WR_SEND, source.sge(length))
        good(poll(a.cq))
        (wc,) = good(poll(b.rcq))
        same((wc.wr_id, wc.byte_len), (n, length), "the receive")
        same(sink.bytes(length), data, f"{length} bytes")
        if faults() == before:
            raise AssertionError("no page was missing")
    shut(a, b)


def sends_of_nothing():
    """Memory that was never written to is sent as zeros."""
    a, b, source, sink = ends()
    for _ in range(3):
        sink.fill(b"x" * SIZE)
        source.drop()
        b.recv(sink.sge())
        a.send(e.IBV_WR_SEND, source.sge())
        good(poll(a.cq) + poll(b.rcq))
        same(sink.bytes(), bytes(SIZE), "the bytes")
    shut(a, b)


def writes():
    a, b, source, sink = ends()
    for n, (length, at) in enumerate(((8, 0), (5000, 4090), (SIZE, 0))):
        data = pattern(length, n)
        source.fill(data)
        sink.drop()
        before = faults()
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(length), remote=sink.remote(at))
        good(poll(a.cq))
        same(sink.bytes(length, at), data, f"{length} bytes")
        if faults() == before:
            raise AssertionError("no page was missing")
    shut(a, b)


def reads():
    """Pages are missing on both sides: those of the response, and those that it goes to."""
    a, b, sink, source = ends()
    for n, length in enumerate((8, 5000, SIZE)):
        data = pattern(length, n)
        source.fill(data)
        sink.drop()
        before = faults()
        a.send(e.IBV_WR_RDMA_READ, sink.sge(length), remote=source.remote())
        good(poll(a.cq))
        same(sink.bytes(length), data, f"{length} bytes")
        if faults() == before:
            raise AssertionError("no page was missing")
        source.drop()
        a.send(e.IBV_WR_RDMA_READ, sink.sge(length), remote=source.remote())
        good(poll(a.cq))
        same(sink.bytes(length), bytes(length), "bytes that are zero")
    shut(a, b)


def atomics():
    """Each is carried out once, though its page was missing, and the page of its result."""
    a, b, result, word = ends()
    for n in range(20):
        word.drop()
        result.drop()
        word.fill(struct.pack("<Q", n))
        if n % 2:
            word.drop()
        before = 0 if n % 2 else n
        one = {"atomic": (5, 0), "remote": word.remote()}
        a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, result.sge(8), **one)
        good(poll(a.cq))
        same(struct.unpack("<Q", result.bytes(8)), (before,), "before")
        same(struct.unpack("<Q", word.bytes(8)), (before + 5,), "after")
    shut(a, b)


def datagrams(kind):
    """UD and UC send from memory that is not there."""
    a, b = End(host_a(), kind, size=0), End(host_b(), kind)
    connect(a, b)
    source = Memory(a.host)
    to = {}
    if kind == e.IBV_QPT_UD:
        to = {"ah": (ah_to(a.host, b.host), b.qp.qp_num, 0x11111111)}
    for _ in range(20):
        source.drop()
        b.recv(b.sge(2000))
        a.send(e.IBV_WR_SEND, source.sge(1000), **to)
        good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def lost_datagrams():
    """A datagram that finds no page is lost. Its receive serves a later one, once."""
    a, b = End(host_a(), e.IBV_QPT_UD), End(host_b(), e.IBV_QPT_UD, size=0)
    connect(a, b)
    sink = Memory(b.host)
    to = (ah_to(a.host, b.host), b.qp.qp_num, 0x11111111)
    before = faults()
    b.recv(sink.sge(2000), wr_id=7)
    sent = [0]

    def arrived():
        a.mr.write("datagram", 8)
        a.send(e.IBV_WR_SEND, a.sge(8), ah=to)
        good(poll(a.cq))
        sent[0] += 1
        n, wcs = b.rcq.poll(1)
        return n and (same(wcs[0].wr_id, 7, "the receive") or True)

    until(arrived, "a datagram")
    if faults() == before or sent[0] < 2:
        raise AssertionError("no page was missing")
    same(sink.bytes(8, 40), b"datagram", "the bytes")
    shut(a, b)


def no_memory():
    """Memory that the process has given back: the errors of memory that is not there. Once it is
    mapped again it works."""
    for local in (True, False):
        a, b, mine, theirs = ends()
        gone = mine if local else theirs
        gone.fill(b"y" * SIZE)
        a.send(e.IBV_WR_RDMA_WRITE, mine.sge(100), remote=theirs.remote())
        good(poll(a.cq))
        gone.unmap()
        a.send(e.IBV_WR_RDMA_WRITE, mine.sge(100), remote=theirs.remote())
        want = "LOC_PROT_ERR" if local else "REM_ACCESS_ERR"
        same(status(poll(a.cq)[0]), want, "the status")
        gone.map_again()
        gone.fill(b"z" * SIZE)
        c, d = End(a.host, size=0), End(b.host, size=0)
        connect(c, d)
        c.send(e.IBV_WR_RDMA_WRITE, mine.sge(100), remote=theirs.remote())
        good(poll(c.cq))
        same(theirs.bytes(100), mine.bytes(100), "the bytes")
        shut(a, b)


def read_only():
    """Memory that the process must not write to, by way of a region that may be written: private
    pages, and those of a file. It is read, and neither a WRITE, an atomic nor the response to a READ
    changes it."""
    for kind in ("anonymous", "file"):
        for opcode in (
            e.IBV_WR_RDMA_WRITE,
            e.IBV_WR_ATOMIC_FETCH_AND_ADD,
            e.IBV_WR_ATOMIC_CMP_AND_SWP,
            e.IBV_WR_RDMA_READ,
        ):
            read_only_by(kind, opcode)
    a, b, mine, theirs = ends()
    readable = Memory(b.host, access=e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_ON_DEMAND)
    readable.fill(b"q" * SIZE)
    a.send(e.IBV_WR_RDMA_READ, mine.sge(100), remote=readable.remote())
    good(poll(a.cq))
    same(mine.bytes(100), b"q" * 100, "the bytes")
    shut(a, b)


def read_only_by(kind, opcode):
    a, b, mine, _ = ends()
    reader = opcode == e.IBV_WR_RDMA_READ
    with tempfile.TemporaryFile() as file:
        file.truncate(SIZE)
        sealed = Memory(
            (a if reader else b).host, access=ODP, file=file if kind == "file" else None
        )
        sealed.fill(b"r" * SIZE)
        sealed.protect(mmap.PROT_READ)
        if reader:
            # Into the sealed memory.
            other = Memory(b.host)
            a.send(opcode, sealed.sge(8), remote=other.remote())
            same(status(poll(a.cq)[0]), "LOC_PROT_ERR", f"a READ into {kind} memory")
        else:
            a.send(e.IBV_WR_RDMA_READ, mine.sge(8), remote=sealed.remote())
            good(poll(a.cq))
            same(mine.bytes(8), b"r" * 8, "the bytes that are read")
            atomic = (int.from_bytes(b"r" * 8, "little"), 1)
            a.send(
                opcode,
                mine.sge(8),
                remote=sealed.remote(),
                atomic=None if opcode == e.IBV_WR_RDMA_WRITE else atomic,
            )
            same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", f"{opcode} to {kind} memory")
        same(sealed.bytes(16), b"r" * 16, f"the bytes of {kind} memory after {opcode}")
        shut(a, b)


def forked():
    """After a fork the region stays the parent's: a WRITE does not reach the child's copy."""
    a, b, source, sink = ends()
    sink.fill(b"0" * SIZE)
    source.fill(b"1" * SIZE)
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
    good(poll(a.cq))
    source.fill(b"2" * SIZE)
    go, gone = os.pipe()

    def look():
        os.close(gone)  # so that it ends if the parent does
        os.read(go, 1)
        same(sink.bytes(), b"1" * SIZE, "the child's bytes")

    def write():
        before = faults()
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
        good(poll(a.cq))
        if faults() == before:
            raise AssertionError("the fork took no page away")
        os.write(gone, b"x")

    child(look, write)
    same(sink.bytes(), b"2" * SIZE, "the parent's bytes")
    shut(a, b)


def files():
    """A file that is mapped: the bytes that a peer wrote get to the disk."""
    with open(f"/var/tmp/odp.{os.getpid()}", "w+b") as file:
        os.unlink(file.name)
        file.truncate(SIZE)
        a, b, source, _ = ends()
        sink = Memory(b.host, file=file)
        for n in range(3):
            data = pattern(SIZE, n)
            source.fill(data)
            a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
            good(poll(a.cq))
            os.fsync(file.fileno())
            sink.drop()
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
                drop.write("1")
            same(os.pread(file.fileno(), SIZE, 0), data, "the file")
        shut(a, b)


def impatient():
    """A requester that tries once gets the error of a receiver that is not ready."""
    a, b, source, sink = ends(rnr=0)
    source.fill(b"i" * 8)
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(8), remote=sink.remote())
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    shut(a, b)


def under_way():
    """Pages go all the time, by forks, while messages are under way: no byte is wrong."""
    a, b, source, sink = ends(timeout=18)
    over = threading.Event()

    def fork():
        while not over.is_set():
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
            time.sleep(0.005 * SLOW)

    thread = threading.Thread(target=fork)
    thread.start()
    try:
        before = faults()
        for n in range(60):
            data = pattern(SIZE, n)
            source.fill(data)
            if n % 3 == 0:
                a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
            elif n % 3 == 1:
                b.recv(sink.sge())
                a.send(e.IBV_WR_SEND, source.sge())
                good(poll(b.rcq))
            else:
                b.send(e.IBV_WR_RDMA_READ, sink.sge(), remote=source.remote())
                good(poll(b.cq))
            if n % 3 != 2:
                good(poll(a.cq))
            same(sink.bytes() == data, True, f"the bytes of message {n}")
        if faults() == before:
            raise AssertionError("no page was missing")
    finally:
        over.set()
        thread.join()
    shut(a, b)


CASES = [
    ("SENDs and receives", sends),
    ("memory that was never written to", sends_of_nothing),
    ("WRITEs", writes),
    ("READs", reads),
    ("atomics", atomics),
    ("UD sends", datagrams, e.IBV_QPT_UD),
    ("UC sends", datagrams, e.IBV_QPT_UC),
    ("a datagram without its page", lost_datagrams),
    ("memory that is not there", no_memory),
    ("memory that must not be written", read_only),
    ("a fork", forked),
    ("a file", files),
    ("a requester that does not wait", impatient),
    ("pages that go while messages are under way", under_way),
]

if __name__ == "__main__":
    main([(f"on-demand paging: {name}", function, *args) for name, function, *args in CASES])
