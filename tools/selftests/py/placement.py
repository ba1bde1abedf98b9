# SPDX-License-Identifier: GPL-2.0
"""ATOMIC WRITE and FLUSH: what they do, how they complete, and what must be refused.

The requests are written into the ring by hand, so that each form can be posted, on each service.
pyverbs-suite posts them by librxe.
"""

import ctypes
import errno
import struct
import threading

import enums as e
from pyverbs.mr import MR, MWBindInfo

from keys import BIND, TYPES, Owner
from oxetest import (
    ALL_ACCESS,
    LOCAL,
    QKEY,
    SIG,
    End,
    ah_to,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    status,
)
from ring import DATA, LENGTH, MASK, PRODUCER, SGE, SGES, Ring, mappings, ring_doorbell

FLUSH, ATOMIC_WRITE = e.IBV_WR_FLUSH, e.IBV_WR_ATOMIC_WRITE
FLUSHABLE = ALL_ACCESS | e.IBV_ACCESS_FLUSH_GLOBAL
GLOBAL, PERSISTENT = 1, 2
RANGE, REGION = 0, 1
UNION = 24
SIZE = 65536


class Raw(End):
    """An end whose send requests are written into the ring."""

    def __init__(self, host, *args, **kw):
        before = set(mappings())
        kw.setdefault("access", FLUSHABLE)
        super().__init__(host, *args, size=SIZE, **kw)
        rings = [Ring(start, size) for start, size in mappings().items() if start not in before]
        self.sq = max(rings, key=Ring.element)
        ctypes.memset(self.mr.buf, 0xC5, SIZE)

    def post(self, opcode, form, data=b"", length=0, sges=0, flags=SIG, wr_id=0):
        stride, producer = self.sq.element(), self.sq.word(PRODUCER).value
        wqe = bytearray(stride)
        struct.pack_into("<QIII", wqe, 0, wr_id, 0, opcode, flags)
        wqe[UNION : UNION + len(form)] = form
        struct.pack_into("<II", wqe, LENGTH, length, length)
        struct.pack_into("<I", wqe, SGES, sges)
        wqe[SGE : SGE + len(data)] = data
        self.sq.put(DATA + producer * stride, bytes(wqe))
        self.sq.word(PRODUCER).value = (producer + 1) & self.sq.word(MASK).value
        ring_doorbell(self.host.ctx)

    def store(self, remote, value, length=None, **kw):
        """An ATOMIC WRITE of these bytes, which stand in the place of the SGEs."""
        length = len(value) if length is None else length
        self.post(ATOMIC_WRITE, struct.pack("<QI", *remote), value, length, **kw)

    def store_from(self, remote, *places, lkey=None, **kw):
        """An ATOMIC WRITE of bytes of the buffer: (offset, length) each."""
        key = self.mr.lkey if lkey is None else lkey
        data = b"".join(struct.pack("<QII", self.mr.buf + at, n, key) for at, n in places)
        self.post(ATOMIC_WRITE, struct.pack("<QI", *remote), data, sges=len(places), **kw)

    def flush(self, remote, length, placement=GLOBAL, level=RANGE, **kw):
        address, rkey = remote
        form = struct.pack("<QIIBB", address, 0, rkey, placement, level)
        self.post(FLUSH, form, length=length, **kw)

    def bytes(self, offset=0, length=SIZE):
        return ctypes.string_at(self.mr.buf + offset, length)


def ends(**kw):
    a, b = Raw(host_a()), Raw(host_b())
    connect(a, b, **kw)
    return a, b


def done(a, opcode, count=1):
    for wc in good(poll(a.cq, count)):
        same(wc.opcode, opcode, "opcode of the completion")


def capabilities():
    a = End(host_a(), size=0)
    flags = a.host.ctx.query_device_ex().device_cap_flags_ex
    same((flags >> 38 & 1, flags >> 39 & 1, flags >> 40 & 1), (1, 0, 1), "capabilities")
    persistent = FLUSHABLE | e.IBV_ACCESS_FLUSH_PERSISTENT
    same(errno_of(MR, a.host.pd, 4096, persistent), errno.EOPNOTSUPP, "persistent memory")
    a.host.close()


def stores():
    """The value in the WQE, inline, in one SGE and in several: eight bytes change, in their order,
    and no others."""
    a, b = ends()
    want = bytearray(b.bytes())
    forms = (
        lambda remote, value: a.store(remote, value),
        lambda remote, value: a.store(remote, value, flags=SIG | e.IBV_SEND_INLINE),
        lambda remote, value: a.store_from(remote, (1001, 8)),
        lambda remote, value: a.store_from(remote, (1001, 3), (1004, 5)),
        lambda remote, value: a.store_from(remote, (1001, 0), (1001, 8)),
        lambda remote, value: a.store_from(remote, (4092, 8)),
    )
    for n, form in enumerate(forms):
        for at in (0, 8, 4088, 4096, SIZE - 8):
            value = bytes((n * 16 + at % 13 + i for i in range(8)))
            ctypes.memmove(a.mr.buf + 1001, value, 8)
            ctypes.memmove(a.mr.buf + 4092, value, 8)
            form(b.remote(at), value)
            done(a, e.IBV_WC_ATOMIC_WRITE)
            want[at : at + 8] = value
            same(b.bytes() == bytes(want), True, f"memory after form {n} at {at}")
    none_pending(b.rcq)
    shut(a, b)


def stored_at_once():
    """A thread that reads the word all the time never finds a part of a value."""
    a, b = ends()
    values = [bytes([n]) * 8 for n in (0x11, 0x22, 0xC5)]
    word, found, stop = ctypes.c_uint64.from_address(b.mr.buf), set(), threading.Event()

    def read():
        while not stop.is_set():
            found.add(word.value)

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(300):
        a.store(b.remote(), values[n % 3])
        good(poll(a.cq))
    stop.set()
    thread.join()
    same(found <= {int.from_bytes(v, "little") for v in values}, True, f"values found {found}")
    shut(a, b)


def in_order():
    """Among other requests, unsignaled, fenced or not: each takes effect after those before it."""
    a, b = ends(rd_atomic=2)
    for n in range(40):
        value = bytes([n]) * 8
        ctypes.memset(a.mr.buf, n, 5000)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(5000), wr_id=1, remote=b.remote())
        a.store(b.remote(8), bytes(8), wr_id=2)
        a.flush(b.remote(), 5000, wr_id=3, flags=SIG | (n % 2) * e.IBV_SEND_FENCE)
        a.store(b.remote(8), value, wr_id=4, flags=SIG | (n % 2) * e.IBV_SEND_FENCE)
        a.send(
            e.IBV_WR_RDMA_READ,
            a.sge(5000, 10000),
            wr_id=5,
            flags=SIG | e.IBV_SEND_FENCE,
            remote=b.remote(),
        )
        wcs = good(poll(a.cq, 5))
        same([wc.wr_id for wc in wcs], [1, 2, 3, 4, 5], "order of the completions")
        same(a.bytes(10000, 5000) == bytes([n]) * 5000, True, "what is read")
    shut(a, b)


def flushes():
    a, b = ends()
    want = b.bytes()
    for at, length in ((0, SIZE), (0, 0), (1, 7), (SIZE - 1, 1), (SIZE, 0)):
        a.flush(b.remote(at), length)
        done(a, e.IBV_WC_FLUSH)
    for address, length in ((0, 0), (2**64 - 1, 2**32 - 1), (b.mr.buf, 12345678)):
        a.flush((address, b.mr.rkey), length, level=REGION)
        done(a, e.IBV_WC_FLUSH)
    same(b.bytes() == want, True, "memory")
    shut(a, b)


def many():
    """More than may be outstanding, with each limit."""
    for limit in (1, 3, 16):
        a, b = ends(rd_atomic=limit, rd_dest=limit)
        for n in range(60):
            if n % 3 == 2:
                a.flush(b.remote(), 100, wr_id=n)
            else:
                a.store(b.remote(8 * n), struct.pack("<Q", n), wr_id=n)
        wcs = good(poll(a.cq, 60))
        same([wc.wr_id for wc in wcs], list(range(60)), "order of the completions")
        for n in range(60):
            got = b.bytes(8 * n, 8)
            same(got, b"\xc5" * 8 if n % 3 == 2 else struct.pack("<Q", n), f"word {n}")
        shut(a, b)


def windows(kind):
    """A window grants what it was bound for: to flush, if its region may be flushed."""
    flush, write = e.IBV_ACCESS_FLUSH_GLOBAL, e.IBV_ACCESS_REMOTE_WRITE
    for rights, stored, flushed in (
        (write, "SUCCESS", "REM_ACCESS_ERR"),
        (flush, "REM_ACCESS_ERR", "SUCCESS"),
        (write | flush, "SUCCESS", "SUCCESS"),
    ):
        for what, want in (("store", stored), ("flush", flushed)):
            owner, peer = Owner(host_a(), LOCAL | BIND | flush), Raw(host_b())
            connect(owner, peer)
            # The queue pair allows flushes as well.
            owner_allows(owner)
            info = MWBindInfo(owner.mr, owner.mr.buf + 1000, 3000, rights)
            key = owner.bind(owner.window(kind), info)
            remote = (owner.mr.buf + 1000 + (-(owner.mr.buf + 1000) % 8), key)
            if what == "store":
                peer.store(remote, b"abcdefgh")
            else:
                peer.flush(remote, 100)
            same(status(poll(peer.cq)[0]), want, f"{what} with rights {rights:#x}")
            shut(owner, peer)
    owner, peer = Owner(host_a(), LOCAL | BIND), Raw(host_b())
    connect(owner, peer)
    owner.post_bind(owner.window(kind), MWBindInfo(owner.mr, owner.mr.buf, 100, flush))
    same(status(poll(owner.cq)[0]), "MW_BIND_ERR", "a region that may not be flushed")
    shut(owner, peer)


def owner_allows(end, access=FLUSHABLE):
    from pyverbs.qp import QPAttr

    attr = QPAttr(port_num=1)
    attr.qp_access_flags = access
    end.qp.modify(attr, e.IBV_QP_ACCESS_FLAGS)


def refused(what, post, want, region=FLUSHABLE, allowed=FLUSHABLE):
    """A request that must fail: nothing is stored, those behind it are flushed."""
    a, b = ends()
    owner_allows(b, allowed)
    if region != FLUSHABLE:
        b.mr.close()
        b.mr = MR(b.host.pd, SIZE, region)
        ctypes.memset(b.mr.buf, 0xC5, SIZE)
    before = b.bytes()
    post(a, b)
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(100, 2000), wr_id=2, remote=b.remote())
    wcs = poll(a.cq, 2)
    same([status(wc) for wc in wcs], [want, "WR_FLUSH_ERR"], what)
    same(b.bytes() == before, True, f"memory after {what}")
    same(a.state(), e.IBV_QPS_ERR, f"state after {what}")
    shut(a, b)


def refused_stores():
    def case(what, post, want, **kw):
        refused(what, lambda a, b: post(a, b, b"12345678"), want, **kw)

    invalid, access = "REM_INV_REQ_ERR", "REM_ACCESS_ERR"
    for at in (1, 4, 7):
        case(f"offset {at}", lambda a, b, v, at=at: a.store(b.remote(at), v), invalid)
    case("another key", lambda a, b, v: a.store((b.mr.buf, b.mr.rkey ^ 0x100), v), access)
    case("past the end", lambda a, b, v: a.store(b.remote(SIZE), v), access)
    case("before the start", lambda a, b, v: a.store(b.remote(-8), v), access)
    store = lambda a, b, v: a.store(b.remote(), v)
    no_write = FLUSHABLE & ~e.IBV_ACCESS_REMOTE_WRITE
    case("a region without the right", store, access, region=no_write)
    case("a queue pair that does not allow it", store, invalid, allowed=no_write)
    for n in (0, 4, 7, 9, 16):
        case(
            f"{n} bytes",
            lambda a, b, v, n=n: a.store(b.remote(), (v * 2)[:n]),
            "LOC_LEN_ERR",
        )
        case(
            f"{n} bytes inline",
            lambda a, b, v, n=n: a.store(b.remote(), (v * 2)[:n], flags=SIG | e.IBV_SEND_INLINE),
            "LOC_LEN_ERR",
        )
        case(
            f"{n} bytes of an SGE",
            lambda a, b, v, n=n: a.store_from(b.remote(), (0, n)),
            "LOC_LEN_ERR",
        )
    case(
        "a length beyond the WQE", lambda a, b, v: a.store(b.remote(), v, 2**32 - 8), "LOC_LEN_ERR"
    )
    case(
        "another lkey",
        lambda a, b, v: a.store_from(b.remote(), (0, 8), lkey=a.mr.lkey ^ 0x100),
        "LOC_PROT_ERR",
    )


def refused_flushes():
    invalid, access = "REM_INV_REQ_ERR", "REM_ACCESS_ERR"

    def case(what, want, at=0, length=100, key=0, region=FLUSHABLE, allowed=FLUSHABLE, **kw):
        def post(a, b):
            a.flush((b.mr.buf + at, b.mr.rkey ^ key), length, **kw)

        refused(f"a FLUSH with {what}", post, want, region, allowed)

    for placement in (0, 4, 5, 8, 15):
        case(f"placement {placement}", invalid, placement=placement)
    for level in (2, 3):
        case(f"level {level}", invalid, level=level)
    case("a placement that has no bits", "LOC_QP_OP_ERR", placement=16)
    case("a level that has no bits", "LOC_QP_OP_ERR", level=4)
    case("another key", access, key=0x100)
    case("another key, of a region", access, key=0x100, level=REGION)
    case("another key, of nothing", access, key=0x100, length=0)
    case("a range past the end", access, at=SIZE - 99)
    case("a range that wraps", access, at=8, length=2**32 - 1)
    case("a range before the start", access, at=-1)
    region = FLUSHABLE & ~e.IBV_ACCESS_FLUSH_GLOBAL
    case("a region that may not be flushed", access, region=region)
    case("such a region, whole", access, region=region, level=REGION)
    case("a queue pair that does not allow it", invalid, allowed=region)
    # Processes may allow it on a queue pair, but no region grants it.
    both = FLUSHABLE | e.IBV_ACCESS_FLUSH_PERSISTENT
    case("persistence that is not allowed", invalid, placement=PERSISTENT)
    case("persistence", access, placement=PERSISTENT, allowed=both)
    case("both", access, placement=GLOBAL | PERSISTENT, allowed=both)


def without_resources():
    """A queue pair that may have nothing outstanding."""
    for post in (
        lambda a, b: a.store(b.remote(), b"12345678"),
        lambda a, b: a.flush(b.remote(), 8),
    ):
        a, b = ends(rd_atomic=0, rd_dest=0)
        post(a, b)
        same(status(poll(a.cq)[0]), "LOC_QP_OP_ERR", "status")
        shut(a, b)


def other_services():
    for kind in (e.IBV_QPT_UC, e.IBV_QPT_UD):
        for opcode in (ATOMIC_WRITE, FLUSH):
            a, b = Raw(host_a(), kind), Raw(host_b(), kind)
            connect(a, b)
            form = struct.pack("<QIIBB", b.mr.buf, b.mr.rkey, b.mr.rkey, GLOBAL, RANGE)
            if kind == e.IBV_QPT_UD:
                handle = ah_to(a.host, b.host)
                form = struct.pack("<IIHHI", b.qp.qp_num, QKEY, 0, 0, 1)
            a.post(opcode, form, b"12345678", 8)
            same(status(poll(a.cq)[0]), "LOC_QP_OP_ERR", f"{opcode} on {kind}")
            same(b.bytes() == b"\xc5" * SIZE, True, "memory")
            if kind == e.IBV_QPT_UD:
                handle.close()
            shut(a, b)


CASES = [
    ("capabilities", capabilities),
    ("ATOMIC WRITE", stores),
    ("ATOMIC WRITE in one store", stored_at_once),
    ("order of ATOMIC WRITE and FLUSH", in_order),
    ("FLUSH", flushes),
    ("many at a time", many),
    ("by windows of type 1", windows, TYPES[0]),
    ("by windows of type 2", windows, TYPES[1]),
    ("ATOMIC WRITEs that are refused", refused_stores),
    ("FLUSHes that are refused", refused_flushes),
    ("no resources", without_resources),
    ("UC and UD", other_services),
]

if __name__ == "__main__":
    main(CASES)
