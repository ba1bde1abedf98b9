# SPDX-License-Identifier: GPL-2.0
"""Regions with on-demand paging: what may be registered, registered anew and bound, advice on their
pages, and their end while pages are asked for.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import pathlib
import re
import struct
import subprocess
import threading
import time

import enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo

from odp import LIBC, ODP, PAGE, SIZE, Memory, check, ends, faults, pattern
from oxetest import (
    ALL_ACCESS,
    LOCAL,
    End,
    Skip,
    connect,
    errno_of,
    good,
    host_a,
    main,
    none_pending,
    poll,
    same,
    shut,
    status,
    until,
)
from rereg import ACCESS, DRIVER_RXE, RDMA_VERBS_IOCTL, rereg

PREFETCH, PREFETCH_WRITE, NO_FAULT = 0, 1, 2
FLUSH = 1
# ROUNDS of odp_helpers.c.
LOOKS = 16


def capabilities():
    """RC may use it for everything, UC and UD for sending."""
    host = host_a()
    caps = host.ctx.query_device_ex().odp_caps
    same(caps.general_caps, e.IBV_ODP_SUPPORT, "general")
    every = e.IBV_ODP_SUPPORT_SEND | e.IBV_ODP_SUPPORT_RECV | e.IBV_ODP_SUPPORT_WRITE
    every |= e.IBV_ODP_SUPPORT_READ | e.IBV_ODP_SUPPORT_ATOMIC | e.IBV_ODP_SUPPORT_SRQ_RECV
    same(caps.rc_odp_caps & every, every, "RC")
    same(caps.uc_odp_caps, e.IBV_ODP_SUPPORT_SEND, "UC")
    same(caps.ud_odp_caps, e.IBV_ODP_SUPPORT_SEND, "UD")
    host.close()


def advise(memory, advice, flags=1, key=None, length=None, at=None):
    """ibv_advise_mr by the ioctl, as librxe of rdma-core 56 does not pass it on."""
    sge = struct.pack(
        "<QII",
        memory.at if at is None else at,
        memory.size if length is None else length,
        memory.mr.lkey if key is None else key,
    )
    sge = ctypes.create_string_buffer(sge, len(sge))
    # struct ib_uverbs_attr for each of UVERBS_ATTR_ADVISE_MR_PD_HANDLE, _ADVICE, _FLAGS, _SGE_LIST.
    attrs = (
        (0, 0, 1, 0, memory.host.pd.handle),
        (1, 8, 1, 0, advice),
        (2, 4, 1, 0, flags),
        (3, len(sge), 1, 0, ctypes.addressof(sge)),
    )
    size = 24 + 16 * len(attrs)
    # struct ib_uverbs_ioctl_hdr: UVERBS_METHOD_ADVISE_MR of UVERBS_OBJECT_MR.
    command = struct.pack("<HHHHQII", size, 7, 2, len(attrs), 0, DRIVER_RXE, 0)
    command += b"".join(struct.pack("<HHHHQ", *attr) for attr in attrs)
    fcntl.ioctl(memory.host.ctx.cmd_fd, RDMA_VERBS_IOCTL, command)


def prefetched():
    """Pages that were asked for before are there: no packet finds one missing."""
    a, b, source, sink = ends()
    for flags in (FLUSH, 0):
        source.drop()
        sink.drop()
        advise(source, PREFETCH, flags)
        advise(sink, PREFETCH_WRITE, flags)
        if not flags:
            until(lambda: resident(source) and resident(sink), "the pages")
        before = faults()
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
        good(poll(a.cq))
        same(faults(), before, "packets that found a page missing")
    # Pages that the process has, but the region does not know yet.
    sink.drop()
    sink.fill(b"n" * SIZE)
    advise(sink, NO_FAULT)
    before = faults()
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
    good(poll(a.cq))
    same(faults(), before, "packets that found a page missing")
    shut(a, b)


def resident(memory):
    """Whether all of its pages are there."""
    pages = memory.size // PAGE
    found = (ctypes.c_ubyte * pages)()
    check(LIBC.mincore(ctypes.c_void_p(memory.at), ctypes.c_size_t(memory.size), found))
    return all(byte & 1 for byte in found)


def advised_by_several():
    """Several threads ask for pages that go all the time: no access finds a page that is gone."""
    a, b, source, sink = ends()
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                advise(sink, PREFETCH_WRITE, FLUSH)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(60):
            sink.drop()
            data = pattern(SIZE, n)
            sink.fill(data)
            a.send(e.IBV_WR_RDMA_READ, source.sge(), remote=sink.remote())
            good(poll(a.cq))
            same(source.bytes() == data, True, "the newest bytes were read")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    shut(a, b)


def small_pages():
    """A region that claims to be of huge pages, and is not: the hint changes nothing."""
    a, b, source, sink = ends()
    hinted = Memory(b.host, access=ODP | e.IBV_ACCESS_HUGETLB)
    data = pattern(SIZE, 5)
    source.fill(data)
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=hinted.remote())
    good(poll(a.cq))
    same(hinted.bytes(), data, "the bytes")
    advise(hinted, PREFETCH_WRITE, FLUSH)
    shut(a, b)


def wrong_advice():
    a, b, memory, _ = ends()
    pinned = Memory(a.host, access=LOCAL)
    other = Memory(b.host)
    readable = Memory(a.host, access=e.IBV_ACCESS_ON_DEMAND)
    hole = Memory(a.host)
    hole.unmap()
    cases = (
        ("pinned memory", 0, pinned, PREFETCH_WRITE, {}),
        ("no bytes", 0, memory, PREFETCH, {"length": 0}),
        ("an unknown key", errno.EFAULT, memory, PREFETCH, {"key": memory.mr.lkey ^ 0x10000}),
        ("a key of another PD", errno.EFAULT, memory, PREFETCH, {"key": other.mr.lkey}),
        ("past its end", errno.EFAULT, memory, PREFETCH, {"length": SIZE + 1}),
        ("before its start", errno.EFAULT, memory, PREFETCH, {"at": memory.at - 1, "length": 1}),
        ("writing where that is not allowed", errno.EFAULT, readable, PREFETCH_WRITE, {}),
        ("memory that is not there", errno.EFAULT, hole, PREFETCH, {}),
        ("the same, without waiting", 0, hole, PREFETCH, {"flags": 0}),
        ("an unknown advice", errno.EOPNOTSUPP, memory, 3, {}),
        ("an unknown flag", errno.EINVAL, memory, PREFETCH, {"flags": 2}),
    )
    for what, want, *args, kw in cases:
        same(errno_of(advise, *args, **kw), want, what)
    shut(a, b)


def wrong_regions():
    host = host_a()
    end = End(host, size=0)
    at = check(LIBC.mmap(None, SIZE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0))
    top = 2**64 - PAGE
    for what, want, address, size in (
        ("no bytes", (errno.EINVAL,), at, 0),
        ("a range that wraps", (errno.EINVAL, errno.EOVERFLOW), top, 2 * PAGE),
        ("more than there can be", (errno.EINVAL, errno.ENOMEM, errno.EFAULT), at, 2**63),
    ):
        got = errno_of(MR, host.pd, size, ODP, address=address)
        if got not in want:
            raise AssertionError(f"{what}: {got}, expected one of {want}")
    same(errno_of(MR, host.pd, 0, ODP, implicit=True), errno.EINVAL, "all memory")
    # Memory that is not mapped yet may be registered, as is the point of it.
    check(LIBC.munmap(at, SIZE))
    MR(host.pd, SIZE, ODP, address=at).close()
    shut(end)


def changed():
    """A region that was pinned becomes one with on-demand paging, and the other way round."""
    a, b, source, _ = ends()
    sink = Memory(b.host, access=ALL_ACCESS)
    for access, missing in ((ODP, True), (ALL_ACCESS, False), (ODP, True)):
        _, key = rereg(b.host, sink.mr, ACCESS, access=access)
        if missing:
            sink.drop()
        before = faults()
        source.fill(pattern(SIZE, access & 0xFF))
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=(sink.at, key))
        good(poll(a.cq))
        same(sink.bytes(), source.bytes(), "the bytes")
        # The source's page may be missing as well, after the fork or the first access.
        if missing and faults() == before:
            raise AssertionError("no page was missing")
    shut(a, b)


def windows():
    """A window of a region with on-demand paging."""
    a, b, source, _ = ends()
    sink = Memory(b.host, access=ODP | e.IBV_ACCESS_MW_BIND)
    window = MW(b.host.pd, e.IBV_MW_TYPE_1)
    rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
    info = MWBindInfo(sink.mr, sink.at + PAGE, 8 * PAGE, rights)
    bind = MWBind(info, e.IBV_SEND_SIGNALED, 1)
    b.qp.bind_mw(window, bind)
    good(poll(b.cq))
    sink.drop()
    data = pattern(8 * PAGE, 3)
    source.fill(data)
    before = faults()
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(8 * PAGE), remote=(sink.at + PAGE, window.rkey))
    good(poll(a.cq))
    same(sink.bytes(8 * PAGE, PAGE), data, "the bytes")
    if faults() == before:
        raise AssertionError("no page was missing")
    sink.drop()
    a.send(e.IBV_WR_RDMA_READ, source.sge(8 * PAGE), remote=(sink.at + PAGE, window.rkey))
    good(poll(a.cq))
    same(source.bytes(8 * PAGE), bytes(8 * PAGE), "the bytes that were read")
    window.close()
    shut(a, b)


def given_up():
    """Regions are deregistered, and processes end, while pages are asked for."""
    for _ in range(20):
        a, b, source, sink = ends()
        for n in range(16):
            a.send(e.IBV_WR_RDMA_WRITE, source.sge(PAGE, n * PAGE), remote=sink.remote(n * PAGE))
        sink.mr.close()
        shut(a, b)

    def dies():
        a, b, source, sink = ends()
        source.drop()
        for memory in (source, sink):
            advise(memory, PREFETCH_WRITE, 0)
        for n in range(16):
            a.send(e.IBV_WR_RDMA_WRITE, source.sge(PAGE, n * PAGE), remote=sink.remote(n * PAGE))
        os.kill(os.getpid(), 9)

    for _ in range(10):
        pid = os.fork()
        if not pid:
            dies()
        os.waitpid(pid, 0)


def need_userfaultfd():
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    if release < (7, 3):
        raise Skip("before Linux 7.3 a device's access to such a page fails at once")
    uffd = LIBC.syscall(323, os.O_CLOEXEC)
    if uffd == -1 and ctypes.get_errno() == errno.ENOSYS:
        raise Skip("the kernel has no userfaultfd")
    os.close(check(uffd))


def withhold(memory):
    """Pages of the memory do not come (userfaultfd) before the file is closed that this returns."""
    uffd = LIBC.syscall(323, os.O_CLOEXEC)
    fcntl.ioctl(check(uffd), 0xC018AA3F, struct.pack("<QQQ", 0xAA, 0, 0))  # UFFDIO_API
    # UFFDIO_REGISTER for missing pages.
    fcntl.ioctl(uffd, 0xC020AA00, struct.pack("<QQQQ", memory.at, memory.size, 1, 0))
    return uffd


def answers():
    """A QP whose own message, or response to a READ, waits for a page: the other half goes on."""
    need_userfaultfd()
    a, b, source, sink = ends(timeout=16, retry=1)
    box, other = Memory(a.host, access=ALL_ACCESS), Memory(b.host, access=ALL_ACCESS)
    uffd = withhold(source)
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(8), remote=sink.remote())
    for _ in range(3):
        a.recv(box.sge(8))
        b.send(e.IBV_WR_SEND, other.sge(8))
        good(poll(b.cq))
        good(poll(a.rcq))
        b.send(e.IBV_WR_RDMA_READ, other.sge(), remote=box.remote())
        good(poll(b.cq))
    none_pending(a.cq)
    os.close(uffd)
    good(poll(a.cq))
    shut(a, b)
    a, b, source, sink = ends()
    box, other = Memory(a.host, access=ALL_ACCESS), Memory(b.host, access=ALL_ACCESS)
    # The first page is there when the READ comes, and all of them are to be sent.
    source.fill(b"r")
    uffd = withhold(source)
    b.send(e.IBV_WR_RDMA_READ, sink.sge(), remote=source.remote())
    for _ in range(3):
        a.send(e.IBV_WR_RDMA_WRITE, box.sge(), remote=other.remote())
        good(poll(a.cq))
    none_pending(b.cq)
    os.close(uffd)
    good(poll(b.cq))
    same(sink.bytes(1), b"r", "the byte that was read")
    shut(a, b)


def forgotten():
    """Peers that have given up on memory that is not there are not in the way of others, nor is
    advice on memory that comes later."""
    a, b, source, sink = ends(rnr=6, min_rnr=26)
    # A hole would be filled by what the peers map.
    check(LIBC.mprotect(sink.at + SIZE // 2, SIZE // 2, 0))
    peers = [(End(a.host, size=0), End(b.host, size=0)) for _ in range(8)]
    for c, d in peers:
        connect(c, d, rnr=0)
    source.fill(bytes(8))
    for n, (c, _) in enumerate(peers):
        c.send(e.IBV_WR_RDMA_WRITE, source.sge(8), remote=sink.remote(SIZE // 2 + n * PAGE))
    for c, _ in peers:
        same(status(poll(c.cq)[0]), "RNR_RETRY_EXC_ERR", "the status of a peer that gives up")
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(8), remote=sink.remote())
    good(poll(a.cq))
    for end in sum(peers, ()):
        end.close()
    shut(a, b)
    a, b, source, sink = ends()
    sink.unmap()
    advise(sink, PREFETCH_WRITE, 0, at=sink.at + 100, length=PAGE)
    time.sleep(0.2)
    sink.map_again()
    a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=sink.remote())
    good(poll(a.cq))
    shut(a, b)


def unanswered():
    """A page that a process is to deliver itself (userfaultfd), and never does, holds nothing up:
    the region can be deregistered, and the process ends."""
    need_userfaultfd()

    def waits(ends_by):
        a, b, source, sink = ends()
        withhold(sink)
        before = faults()
        a.send(e.IBV_WR_RDMA_WRITE, source.sge(8), remote=sink.remote())
        until(lambda: faults() > before + 3, "the missing page")
        if ends_by == "close":
            sink.mr.close()
            shut(a, b)
            os._exit(0)
        os.kill(os.getpid(), 9)

    for ends_by, want in (("close", 0), ("kill", -9)):
        pid = os.fork()
        if not pid:
            waits(ends_by)
        found = []

        def ended():
            found[:] = os.waitpid(pid, os.WNOHANG)
            return found[0] == pid

        until(ended, f"the end of the process, {ends_by}")
        same(os.waitstatus_to_exitcode(found[1]), want, ends_by)


def secret():
    """Memory of memfd_secret(), which the kernel itself cannot access: an error, and no crash."""
    fd = LIBC.syscall(447, os.O_CLOEXEC)
    if fd == -1 and ctypes.get_errno() == errno.ENOSYS:
        raise Skip("the kernel has no memfd_secret")
    with os.fdopen(check(fd), "r+b", buffering=0) as file:
        os.ftruncate(fd, SIZE)
        for local in (True, False):
            a, b, source, sink = ends()
            hidden = Memory(a.host if local else b.host, file=file)
            hidden.fill(b"s" * SIZE)
            same(errno_of(advise, hidden, PREFETCH), errno.EFAULT, "prefetching it")
            if local:
                a.send(e.IBV_WR_RDMA_WRITE, hidden.sge(), remote=sink.remote())
                same(status(poll(a.cq)[0]), "LOC_PROT_ERR", "sending it")
            else:
                a.send(e.IBV_WR_RDMA_WRITE, source.sge(), remote=hidden.remote())
                same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", "writing to it")
            same(hidden.bytes(), b"s" * SIZE, "its bytes")
            pinned = errno_of(MR, a.host.pd, SIZE, LOCAL, address=hidden.at)
            same(pinned, errno.EFAULT, "pinning it")
            shut(a, b)


TRACING = pathlib.Path("/sys/kernel/tracing")


@contextlib.contextmanager
def traced(events):
    """These kprobes are in the trace while the block runs."""
    if not (TRACING / "kprobe_events").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracing", TRACING], check=False)
    if not (TRACING / "kprobe_events").exists():
        raise Skip("the kernel has no kprobes")
    enable = TRACING / "events/kprobes/enable"
    (TRACING / "kprobe_events").write_text("\n".join(events) + "\n")
    try:
        (TRACING / "trace").write_text("")
        enable.write_text("1")
        yield
    finally:
        enable.write_text("0")
        (TRACING / "kprobe_events").write_text("")


def looks():
    """How often each call that makes pages present has looked them up: a list for those that have
    returned, with their result, and what the longest of those in progress has so far."""
    done, going = [], {}
    for line in (TRACING / "trace").read_text().splitlines():
        found = re.match(r" *(\S+-\d+) .* (began|looked|ended): .*?(?:result=(-?\d+))?$", line)
        if not found:
            continue
        thread, what, result = found.groups()
        if what == "began":
            going[thread] = 0
        elif thread in going and what == "looked":
            going[thread] += 1
        elif thread in going:
            done.append((going.pop(thread), int(result)))
    return done, max(going.values(), default=0)


def deliver(uffd, memory):
    """Waits until one of the two pages of the memory is asked for, and delivers it; the other one
    goes before that."""
    message = os.read(uffd, 32)  # struct uffd_msg
    address = struct.unpack_from("<Q", message, 16)[0] & -PAGE
    other = memory.at + PAGE if address == memory.at else memory.at
    check(LIBC.madvise(other, PAGE, mmap.MADV_DONTNEED))
    zeros = ctypes.create_string_buffer(PAGE)
    # UFFDIO_COPY
    copy = struct.pack("<QQQQq", address, ctypes.addressof(zeros), PAGE, 0, 0)
    fcntl.ioctl(uffd, 0xC028AA03, copy)


def taken_back():
    """Of two pages one always goes while the other comes (F11): a call that looks for both gives
    up each time that it has looked so often, and the pages are found once they stay."""
    need_userfaultfd()
    end = End(host_a(), size=0)
    memory = Memory(end.host, size=2 * PAGE)
    uffd = withhold(memory)
    asks = threading.Thread(target=advise, args=(memory, PREFETCH_WRITE, FLUSH))
    events = (
        "p:began oxe:oxe_odp_map_and_lock",
        "p:looked hmm_range_fault",
        "r:ended oxe:oxe_odp_map_and_lock result=$retval:s32",
    )
    with traced(events):
        asks.start()
        done, going = [], 0
        while len(done) < 3 and going <= LOOKS:
            deliver(uffd, memory)
            done, going = looks()
    os.close(uffd)
    asks.join()
    same(going > LOOKS, False, f"{going} looks of a call that may look {LOOKS} times")
    same(done, 3 * [(LOOKS, -errno.EBUSY)], "calls that gave up")
    same(resident(memory), True, "the pages are there")
    shut(end)



CASES = [
    ("capabilities", capabilities),
    ("prefetch", prefetched),
    ("several threads ask for pages", advised_by_several),
    ("pages that go again and again (F11)", taken_back),
    ("a hint of huge pages", small_pages),
    ("wrong advice", wrong_advice),
    ("regions that are refused", wrong_regions),
    ("regions registered anew", changed),
    ("windows", windows),
    ("regions that go while pages are asked for", given_up),
    ("a page that never comes", unanswered),
    ("ACKs, responses and requests go on without a page", answers),
    ("failures whose peers have given up", forgotten),
    ("secret memory", secret),
]

if __name__ == "__main__":
    main([(f"on-demand paging: {name}", function) for name, function in CASES])
