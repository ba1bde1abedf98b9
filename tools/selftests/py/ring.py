# SPDX-License-Identifier: GPL-2.0
"""A hostile process: it writes garbage into the rings it shares with the kernel, while it posts and
while packets arrive.

The process may lose its own queue pairs, or crash in its library, which reads the garbage. It must
not gain access to memory it has not registered, nor harm the queue pairs of others or the kernel.
ROUNDS=N repeats each attack so often, with other bytes each time.
"""

import ctypes
import os
import random
import struct
import threading
import time

import enums as e
from pyverbs.mr import MR
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from oxetest import (
    SLOW,
    End,
    Skip,
    child,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
)

ROUNDS = int(os.environ.get("ROUNDS", "20"))

# Layout of a ring's header (include/uapi/rdma/rdma_user_rxe.h).
LOG2_ELEM, MASK, PRODUCER, CONSUMER, DATA = 0, 4, 128, 256, 384
# In a send WQE: opcode, flags, total length, number of SGEs, the SGEs (address u64, length u32, key
# u32).
OPCODE, FLAGS, LENGTH, SGES, SGE = 12, 16, 184, 196, 208
POST_SEND = 28  # IB_USER_VERBS_CMD_POST_SEND


def mappings():
    """Addresses and sizes of what this process has mapped of uverbs devices."""
    found = {}
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            if "/dev/infiniband/uverbs" in line:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                found[start] = end - start
    return found


def ring_doorbell(context):
    """The write() with which librxe rings, for every handle that a queue pair of the context could
    have."""
    for handle in range(8):
        command = struct.pack("<IHHQIIII", POST_SEND, 8, 3, 0, handle, 0, 0, 128)
        try:
            os.write(context.cmd_fd, command)
        except OSError:
            pass


class Ring:
    def __init__(self, address, size):
        self.address, self.size = address, size

    def word(self, offset):
        return ctypes.c_uint32.from_address(self.address + offset)

    def put(self, offset, data):
        data = data[: max(0, self.size - offset)]
        ctypes.memmove(self.address + offset, data, len(data))

    def element(self):
        return 1 << self.word(LOG2_ELEM).value


class Hostile:
    """Host A's end of a connection, with the rings it can write to; an honest end on host B; a
    canary that is not registered for writing."""

    def __init__(self, shared=False):
        before = set(mappings())
        host = host_a()
        # The receives are a shared receive queue's, or the queue pair's own.
        srq = SRQ(host.pd, SrqInitAttr(SrqAttr(16, 2))) if shared else None
        self.a = End(host, depth=16, sges=2, inline=32, srq=srq)
        self.rings = [
            Ring(start, size) for start, size in mappings().items() if start not in before
        ]
        same(len(self.rings) >= 4, True, f"rings found ({len(self.rings)} of 4)")
        # Send WQEs are the largest elements; the other three rings are two CQs and the receive
        # queue.
        self.rings.sort(key=Ring.element)
        self.sq = self.rings[-1]
        self.others = self.rings[:-1]
        self.b = End(host_b())
        connect(self.a, self.b, timeout=8, retry=1, rnr=1, min_rnr=1)
        self.canary = MR(host.pd, 8192, 0)
        ctypes.memset(self.canary.buf, 0xC5, 8192)
        self.private = ctypes.create_string_buffer(b"\x3c" * 8192, 8192)
        ctypes.memset(self.b.mr.buf, 0xC5, self.b.mr.length)

    def doorbell(self):
        """The write() with which librxe rings, for every handle that the queue pair could have."""
        ring_doorbell(self.a.host.ctx)

    def post(self, rng):
        """A correct request and a correct receive: garbage in the rings may be taken along."""
        errno_of(self.a.recv, self.a.sge(500, rng.randrange(1000)))
        kind = rng.choice((e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ))
        errno_of(
            self.a.send,
            kind,
            self.a.sge(rng.randrange(3000), 100),
            remote=None if kind == e.IBV_WR_SEND else self.b.remote(),
        )

    def judge(self):
        same(
            ctypes.string_at(self.canary.buf, 8192) == b"\xc5" * 8192,
            True,
            "the region without local write",
        )
        same(self.private.raw == b"\x3c" * 8192, True, "memory never registered")

    def close(self):
        self.judge()
        shut(self.a, self.b)


_honest = []


def honest_works():
    """A connection that is not attacked, made once and used between the attacks."""
    if not _honest:
        a, b = End(host_a()), End(host_b())
        connect(a, b)
        _honest.extend((a, b))
    a, b = _honest
    b.recv(b.sge(5000))
    a.send(e.IBV_WR_SEND, a.sge(5000))
    good(poll(a.cq) + poll(b.rcq))


def attack(change, rounds=3, shared=False):
    """change(hostile, rng) scribbles; then requests are posted and doorbells rung. Some of the
    processes must outlive that."""

    def one(seed):
        rng, h = random.Random(seed), Hostile(shared)
        h.post(rng)
        change(h, rng)
        h.doorbell()
        h.b.recv(h.b.sge(5000))
        errno_of(h.b.send, e.IBV_WR_SEND, h.b.sge(100))
        time.sleep(0.05)
        change(h, rng)
        h.doorbell()
        time.sleep(0.05)
        h.judge()
        if seed % 2:
            h.post(
                rng
            )  # the library reads what was scribbled: this may end the process, in mid-work
        h.close()

    lived = 0
    for seed in range(rounds):
        lived += child(lambda seed=seed: one(seed))
        honest_works()
    same(lived > 0, True, "processes that outlived their attack")


def header(offset, values):
    """These values in a word of every ring's header: the kernel keeps the geometry to itself, and
    checks indices."""

    def change(h, rng):
        for ring in h.rings:
            ring.word(offset).value = rng.choice(values)

    return lambda: attack(change, 6)


def send_wqes(h, rng):
    h.sq.put(DATA, rng.randbytes(h.sq.size))
    h.sq.word(PRODUCER).value = rng.randrange(64)


def everything(h, rng):
    for ring in h.rings:
        ring.put(0, rng.randbytes(ring.size))


def resize_srq(h, rng):
    """A shared receive queue is resized: what the kernel copies is garbage."""
    receive_wqes(h, rng)
    errno_of(h.a.srq.modify, SrqAttr(max_wr=rng.choice((1, 100, 1000))), e.IBV_SRQ_MAX_WR)
    mapped = mappings()
    h.others = [ring for ring in h.others if ring.address in mapped]


def resize_cq(h, rng):
    """A CQ is resized: what the kernel copies is garbage, and where it begins."""
    receive_wqes(h, rng)
    for ring in h.others:
        ring.word(CONSUMER).value = rng.randrange(1 << 32)
    errno_of(h.a.cq.resize, rng.choice((1, 100, 1000)))
    mapped = mappings()
    h.others = [ring for ring in h.others if ring.address in mapped]


def receive_wqes(h, rng):
    for ring in h.others:
        ring.put(DATA, rng.randbytes(ring.size))
        ring.word(PRODUCER).value = rng.randrange(64)


def fields(offset, size, values):
    """A field of every send WQE, the rest as posted."""

    def change(h, rng):
        stride = h.sq.element()
        for slot in range((h.sq.size - DATA) // stride):
            h.sq.put(DATA + slot * stride + offset, rng.choice(values).to_bytes(size, "little"))

    return lambda: attack(change, 3)


def crafted():
    """Send WQEs written by hand: correct ones, then one number of each changed and the indices
    moved."""

    def one(name, offset, value):
        rng, h = random.Random(name), Hostile()
        stride = h.sq.element()
        h.post(rng)
        for slot in range(16):
            h.sq.put(DATA + slot * stride + offset, value.to_bytes(4, "little"))
        h.sq.word(PRODUCER).value = (h.sq.word(PRODUCER).value + 5) & h.sq.word(MASK).value
        h.doorbell()
        time.sleep(0.05)
        h.close()

    for name, offset, value in (
        ("opcode", OPCODE, 0xFF),
        ("opcode", OPCODE, 0x7FFFFFFF),
        ("flags", FLAGS, 0xFFFFFFFF),
    ):
        child(lambda args=(name, offset, value): one(*args))
    honest_works()


def while_posting():
    """One thread scribbles without pause, another posts: what was checked must be what is used."""

    def one(seed):
        rng, h, stop = random.Random(1000 + seed), Hostile(), threading.Event()
        stride = h.sq.element()

        def scribble(rng=random.Random(seed)):
            while not stop.is_set():
                slot = DATA + rng.randrange(17) * stride
                # lengths, counts, addresses and keys live in the WQE's tail: dma and the SGEs
                # behind it
                h.sq.put(
                    slot + LENGTH + 4 * rng.randrange(14),
                    rng.choice((b"\xff" * 4, b"\0" * 4, rng.randbytes(4))),
                )
                h.sq.put(slot + OPCODE, bytes((rng.randrange(16),)))
                for ring in h.others:
                    ring.put(DATA + rng.randrange(256) * 4, rng.randbytes(4))

        thread = threading.Thread(target=scribble)
        thread.start()
        for _ in range(25):
            h.post(rng)
            errno_of(h.b.recv, h.b.sge(5000))
            errno_of(h.b.send, e.IBV_WR_SEND, h.b.sge(100))
            if h.a.state() == e.IBV_QPS_ERR:
                break
        stop.set()
        thread.join()
        h.close()

    for seed in range(ROUNDS):
        child(lambda seed=seed: one(seed))
        honest_works()


def one_bad_wqe():
    """A queue pair with a garbage request errors or flushes; its completions are errors, in order,
    one each."""
    h = Hostile()
    stride = h.sq.element()
    producer = h.sq.word(PRODUCER).value
    h.sq.put(DATA + producer * stride, b"\xff" * stride)
    h.sq.word(PRODUCER).value = (producer + 1) & h.sq.word(MASK).value
    h.doorbell()
    (wc,) = poll(h.a.cq)
    if wc.status == e.IBV_WC_SUCCESS:
        raise AssertionError("garbage completed with success")
    same(h.a.state(), e.IBV_QPS_ERR, "state of the queue pair")
    h.close()


def made_up_mappings():
    """Mapping with invalid cookies, and with lengths that are not the ring's: refused, nothing
    more."""
    import mmap

    h = Hostile()
    fd = h.a.host.ctx.cmd_fd
    mapped = 0
    for offset in [0, 0x1000, 0x2000, 0x100000, 0x7FFF0000, 2**40, 2**62]:
        for length in (4096, 1 << 20):
            try:
                mmap.mmap(fd, length, offset=offset).close()
                mapped += 1
            except (OSError, OverflowError, ValueError):
                pass
    if mapped > 8:
        raise AssertionError(f"{mapped} of 14 made-up mappings were granted")
    h.close()


def unmapped():
    """The process unmaps its own rings and posts on through the file."""
    h = Hostile()
    h.post(random.Random(1))
    libc = ctypes.CDLL(None)
    # Only the receive queue and the send queue: the CQs are still polled by the library when they
    # go.
    for ring in h.rings[-1:]:
        copy = ctypes.string_at(ring.address, ring.size)
        libc.munmap(ctypes.c_void_p(ring.address), ctypes.c_size_t(ring.size))
        # The library still writes there: give it memory of its own at the place.
        libc.mmap.restype = ctypes.c_void_p
        at = libc.mmap(
            ctypes.c_void_p(ring.address), ctypes.c_size_t(ring.size), 3, 0x32, -1, ctypes.c_long(0)
        )
        if at != ring.address:
            raise Skip("no memory at the ring's place")
        ctypes.memmove(ring.address, copy, ring.size)
    h.doorbell()
    h.b.recv(h.b.sge(100))
    errno_of(h.b.send, e.IBV_WR_SEND, h.b.sge(100))
    time.sleep(0.1)
    h.close()


def outlived():
    """A child keeps the rings mapped when their queues are destroyed, and still finds what was in
    them: the kernel does not use that memory for something else."""
    h = Hostile()
    destroyed, told = os.pipe()

    def keep():
        os.close(told)
        rings = h.others + [h.sq]
        before = [ctypes.string_at(ring.address, DATA) for ring in rings]
        os.read(destroyed, 1)
        end = time.monotonic() + SLOW
        while time.monotonic() < end:
            after = [ctypes.string_at(ring.address, DATA) for ring in rings]
            same(after == before, True, "the rings' headers")

    def destroy():
        os.close(destroyed)
        h.close()
        os.close(told)

    child(keep, destroy)


def alone(function):
    same(child(function), True, "the process ended by itself")
    honest_works()


HUGE = [0, 1, 7, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
CASES = [
    ("one garbage request", alone, one_bad_wqe),
    ("element size in the header", header(LOG2_ELEM, HUGE)),
    ("index mask in the header", header(MASK, HUGE)),
    ("producer index", header(PRODUCER, HUGE)),
    ("consumer index", header(CONSUMER, HUGE)),
    ("send requests of random bytes", lambda: attack(send_wqes, ROUNDS)),
    ("receive requests and completions of random bytes", lambda: attack(receive_wqes, ROUNDS)),
    ("all rings of random bytes, headers too", lambda: attack(everything, ROUNDS)),
    ("opcodes", fields(OPCODE, 4, HUGE)),
    ("flags", fields(FLAGS, 4, HUGE)),
    ("length", fields(LENGTH, 4, HUGE)),
    ("SGE counts", fields(SGES, 4, HUGE)),
    ("SGE lengths", fields(SGE + 8, 4, HUGE)),
    ("SGE keys", fields(SGE + 12, 4, HUGE)),
    ("SGE addresses", fields(SGE, 8, [0, 2**64 - 1, 2**63, 0xFFFF888000000000, 2**47])),
    ("crafted requests", crafted),
    ("scribbling while posting", while_posting),
    ("shared receives of random bytes", lambda: attack(receive_wqes, ROUNDS, True)),
    ("all rings of random bytes, receives shared", lambda: attack(everything, ROUNDS, True)),
    ("an SRQ resized in between", lambda: attack(resize_srq, ROUNDS, True)),
    ("a CQ resized in between", lambda: attack(resize_cq, ROUNDS)),
    ("made-up mappings", alone, made_up_mappings),
    ("rings unmapped", alone, unmapped),
    ("rings mapped when their queues are gone", outlived),
]

if __name__ == "__main__":
    main(CASES)
    if _honest:
        shut(*_honest)
