# SPDX-License-Identifier: GPL-2.0
"""Every RC operation, with the memory of both sides compared byte for byte.

Usage: ops.py [--few] [case...]: --few takes smaller counts and is for wires that lose packets.
Devices and GIDs come from the environment (see oxetest.py).
"""

import ctypes
import random
import socket
import sys

import enums as e

from pyverbs.wr import SendWR

from oxetest import (
    DEV_A,
    GID6_A,
    GID6_B,
    GID_A,
    SIG,
    End,
    Host,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
)

FEW = "--few" in sys.argv
if FEW:
    sys.argv.remove("--few")
SIZES = [0, 1, 3, 4, 255, 1023, 1024, 1025, 4097, 65537] if not FEW else [1, 1024, 5000, 65537]
BIG = 300000
WAIT = 60
# A retry timer that suits a wire which loses packets: 4.096 us * 2^13 = 33 ms.
RTS = {"timeout": 13} if FEW else {}


def fill(end, seed=None):
    """Random bytes in the whole buffer; returns them."""
    data = random.Random(seed).randbytes(end.mr.length)
    ctypes.memmove(end.mr.buf, data, len(data))
    return data


def content(end, offset=0, length=None):
    return ctypes.string_at(
        end.mr.buf + offset, end.mr.length - offset if length is None else length
    )


def pair(size=BIG, mtu=e.IBV_MTU_1024, gids=(None, None), one=False, **kw):
    """Two connected ends on two hosts, or on one device; their buffers hold different bytes."""
    host = host_a(gids[0])
    other = Host(DEV_A, GID_A) if one else host_b(gids[1])
    args = {k: kw.pop(k) for k in ("depth", "sig_all", "inline", "cqe") if k in kw}
    a, b = End(host, size=size, **args), End(other, size=size, **args)
    connect(a, b, mtu=mtu, **{**RTS, **kw})
    fill(a, 1)
    fill(b, 2)
    return a, b


def sends(opts):
    a, b = pair(**opts)
    expect = bytearray(content(b))
    for i, size in enumerate(SIZES):
        b.recv(b.sge(size + 10), wr_id=i)
        a.send(e.IBV_WR_SEND, a.sge(size), wr_id=100 + i)
        good(poll(a.cq, 1, WAIT))
        (wc,) = good(poll(b.rcq, 1, WAIT))
        same(
            (wc.wr_id, wc.byte_len, wc.opcode, wc.qp_num),
            (i, size, e.IBV_WC_RECV, b.qp.qp_num),
            "receive completion",
        )
        expect[:size] = content(a, 0, size)
        same(content(b) == bytes(expect), True, f"memory after a send of {size} bytes")
    shut(a, b)


def send_imm():
    a, b = pair()
    for size in (0, 1, 2000):
        b.recv(b.sge(4096))
        a.send(e.IBV_WR_SEND_WITH_IMM, a.sge(size), imm=socket.htonl(0xDEADBE00 + size % 251))
        good(poll(a.cq, 1, WAIT))
        (wc,) = good(poll(b.rcq, 1, WAIT))
        same(
            (wc.byte_len, wc.wc_flags & e.IBV_WC_WITH_IMM, socket.ntohl(wc.imm_data)),
            (size, e.IBV_WC_WITH_IMM, 0xDEADBE00 + size % 251),
            "receive completion",
        )
        same(content(b, 0, size) == content(a, 0, size), True, "data")
    shut(a, b)


def writes(opts):
    a, b = pair(**opts)
    expect = bytearray(content(b))
    for i, size in enumerate(SIZES):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(size, 7), remote=b.remote(3 + i))
        (wc,) = good(poll(a.cq, 1, WAIT))
        same(wc.opcode, e.IBV_WC_RDMA_WRITE, "opcode of the completion")
        expect[3 + i : 3 + i + size] = content(a, 7, size)
        same(content(b) == bytes(expect), True, f"memory after a write of {size} bytes")
    none_pending(b.rcq)
    shut(a, b)


def write_imm():
    a, b = pair()
    for size in (0, 5, 4096, 5000):
        b.recv(b.sge(0), wr_id=size)
        a.send(
            e.IBV_WR_RDMA_WRITE_WITH_IMM,
            a.sge(size),
            remote=b.remote(100),
            imm=socket.htonl(size + 1),
        )
        good(poll(a.cq, 1, WAIT))
        (wc,) = good(poll(b.rcq, 1, WAIT))
        same(
            (wc.wr_id, wc.opcode, socket.ntohl(wc.imm_data)),
            (size, e.IBV_WC_RECV_RDMA_WITH_IMM, size + 1),
            "completion",
        )
        same(wc.byte_len, size, "length in the completion")
        same(content(b, 100, size) == content(a, 0, size), True, "data")
    shut(a, b)


def reads(opts):
    a, b = pair(**opts)
    expect = bytearray(content(a))
    for i, size in enumerate(SIZES):
        a.send(e.IBV_WR_RDMA_READ, a.sge(size, 5 + i), remote=b.remote(9))
        (wc,) = good(poll(a.cq, 1, WAIT))
        same((wc.opcode, wc.byte_len if size else 0), (e.IBV_WC_RDMA_READ, size), "completion")
        expect[5 + i : 5 + i + size] = content(b, 9, size)
        same(content(a) == bytes(expect), True, f"memory after a read of {size} bytes")
    shut(a, b)


def word(end, offset):
    return ctypes.c_uint64.from_address(end.mr.buf + offset)


def atomics(opts):
    a, b = pair(**opts)
    word(b, 64).value = value = 2**64 - 3
    for i in range(20 if FEW else 50):
        add = i * 0x0123456789
        a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, a.sge(8, 8 * i), remote=b.remote(64), atomic=(add, 0))
        (wc,) = good(poll(a.cq, 1, WAIT))
        same((wc.opcode, word(a, 8 * i).value), (e.IBV_WC_FETCH_ADD, value), "fetched value")
        value = (value + add) % 2**64
        same(word(b, 64).value, value, "sum")
    for compare, swap in ((value, 17), (value, 18), (17, 19)):
        a.send(e.IBV_WR_ATOMIC_CMP_AND_SWP, a.sge(8), remote=b.remote(64), atomic=(compare, swap))
        (wc,) = good(poll(a.cq, 1, WAIT))
        same(
            (wc.opcode, word(a, 0).value),
            (e.IBV_WC_COMP_SWAP, value),
            "value before compare and swap",
        )
        value = swap if compare == value else value
        same(word(b, 64).value, value, "value after compare and swap")
    shut(a, b)


def multi_sge():
    """Gathered from four chunks, scattered into four of other lengths; read into chunks."""
    a, b = pair()
    chunks = [(5000, 1), (0, 4097), (9000, 513), (20000, 2)]
    total = sum(n for _, n in chunks)
    sent = b"".join(content(a, o, n) for o, n in chunks)
    into = [(0, 3), (100, 4000), (6000, 0), (7000, total - 4003)]
    b.recv(*[b.sge(n, o) for o, n in into])
    a.send(e.IBV_WR_SEND, *[a.sge(n, o) for o, n in chunks])
    good(poll(a.cq, 1, WAIT))
    (wc,) = good(poll(b.rcq, 1, WAIT))
    same(wc.byte_len, total, "length")
    same(b"".join(content(b, o, n) for o, n in into) == sent, True, "scattered data")
    a.send(e.IBV_WR_RDMA_WRITE, *[a.sge(n, o) for o, n in chunks], remote=b.remote(30000))
    good(poll(a.cq, 1, WAIT))
    same(content(b, 30000, total) == sent, True, "gathered write")
    a.send(e.IBV_WR_RDMA_READ, *[a.sge(n, 50000 + o) for o, n in into], remote=b.remote(30000))
    good(poll(a.cq, 1, WAIT))
    same(b"".join(content(a, 50000 + o, n) for o, n in into) == sent, True, "scattered read")
    shut(a, b)


def inline():
    a, b = pair()
    for size in (0, 1, 63, 64):
        b.recv(b.sge(100))
        data = content(a, 0, size)
        # The memory need not be registered, and may change once the request is posted.
        a.send(e.IBV_WR_SEND, a.sge(size, 0, lkey=0xBAD), flags=SIG | e.IBV_SEND_INLINE)
        ctypes.memset(a.mr.buf, 0, size)
        good(poll(a.cq, 1, WAIT) + poll(b.rcq, 1, WAIT))
        same(content(b, 0, size), data, "inline data")
        fill(a, size)
    shut(a, b)


def unsignalled():
    """Of ten requests only the last asks for a completion, which stands for all."""
    a, b = pair(sig_all=False)
    for i in range(10):
        a.send(
            e.IBV_WR_RDMA_WRITE,
            a.sge(3000, i * 3000),
            wr_id=i,
            flags=SIG if i == 9 else 0,
            remote=b.remote(i * 3000),
        )
    (wc,) = good(poll(a.cq, 1, WAIT))
    same(wc.wr_id, 9, "the one completion")
    same(content(b, 0, 30000) == content(a, 0, 30000), True, "data")
    none_pending(a.cq)
    shut(a, b)


def trains(opts):
    """Many of a kind, posted at once: their packets travel as super-packets, of one length and of
    several."""
    a, b = pair(sig_all=False, depth=64, **opts)
    count, before = 48, [counters(end.host.name) for end in (a, b)]
    for opcode in (e.IBV_WR_RDMA_READ, e.IBV_WR_RDMA_WRITE, e.IBV_WR_SEND):
        for size in (1, 64, 1024, 4096, 5000):
            expect = [bytearray(fill(end)) for end in (a, b)]
            source, sink = (1, 0) if opcode == e.IBV_WR_RDMA_READ else (0, 1)
            expect[sink][: count * size] = expect[source][: count * size]
            for i in range(count if opcode == e.IBV_WR_SEND else 0):
                b.recv(b.sge(size, i * size))
            train = []
            for i in reversed(range(count)):
                train.append(
                    SendWR(
                        i,
                        opcode=opcode,
                        num_sge=1,
                        sg=[a.sge(size, i * size)],
                        next_wr=train[-1] if train else None,
                        send_flags=SIG if i == count - 1 else 0,
                    )
                )
                if opcode != e.IBV_WR_SEND:
                    train[-1].set_wr_rdma(b.mr.rkey, b.mr.buf + i * size)
            a.qp.post_send(train[-1])
            (wc,) = good(poll(a.cq, 1, WAIT))
            same(wc.wr_id, count - 1, "the request that completes")
            if opcode == e.IBV_WR_SEND:
                good(poll(b.rcq, count, WAIT))
            same(
                [content(end) == bytes(want) for end, want in zip((a, b), expect)],
                [True, True],
                f"memory after {count} requests of {size} bytes, opcode {opcode}",
            )
    for end, had in zip((a, b), before):
        now = counters(end.host.name)
        same(
            {
                name: now[name] - had[name]
                for name in now
                if name.startswith("rcvd_bad") and now[name] != had[name]
            },
            {},
            "packets that came broken",
        )
    shut(a, b)


def fence():
    """A fenced send of data that a read before it brings: without the fence stale bytes would
    leave."""
    a, b = pair()
    for i in range(5 if FEW else 20):
        fill(b, 100 + i)
        want = content(b, 10000, 8000)
        b.recv(b.sge(8000, 100000))
        a.send(e.IBV_WR_RDMA_READ, a.sge(8000), remote=b.remote(10000))
        a.send(e.IBV_WR_SEND, a.sge(8000), flags=SIG | e.IBV_SEND_FENCE)
        good(poll(a.cq, 2, WAIT) + poll(b.rcq, 1, WAIT))
        same(content(b, 100000, 8000) == want, True, "fenced data")
    shut(a, b)


def psn_wrap():
    """Request and response PSNs cross 2^24 within a message and between two."""
    a, b = pair(mtu=e.IBV_MTU_256, psn_a=0xFFFFFA, psn_b=0xFFFFF0)
    for i in range(4):
        b.recv(b.sge(20000, 60000))
        a.send(e.IBV_WR_SEND, a.sge(1400, i))
        a.send(e.IBV_WR_RDMA_READ, a.sge(5000, 200000), remote=b.remote(0))
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(5000, 9000), remote=b.remote(100000))
        good(poll(a.cq, 3, WAIT) + poll(b.rcq, 1, WAIT))
        same(content(b, 60000, 1400) == content(a, i, 1400), True, "sent data")
        same(content(a, 200000, 5000) == content(b, 0, 5000), True, "read data")
        same(content(b, 100000, 5000) == content(a, 9000, 5000), True, "written data")
    shut(a, b)


def mixed(opts, seed):
    """A random program of all operations in both directions, many outstanding; afterwards memory is
    as computed.

    Each request has a place of its own on both sides, so that the result does not depend on how two
    directions interleave.
    """
    rng = random.Random(seed)
    count = 30 if FEW else 60
    slot = 12000
    ends = pair(size=2 * count * slot, depth=count + 4, cqe=4 * count, **opts)
    expect = [bytearray(content(end)) for end in ends]
    before = [bytes(x) for x in expect]
    receives = [0, 0]
    plan = []
    for i in range(count):
        me = rng.randrange(2)
        kind = rng.choice(("send", "write", "read", "add", "imm"))
        size = rng.choice((1, 8, 1024, 1025, rng.randrange(1, slot)))
        place = (2 * i + me) * slot
        plan.append((me, kind, size, place, i))
        if kind in ("send", "imm"):
            receives[1 - me] += 1
            ends[1 - me].recv(ends[1 - me].sge(slot if kind == "send" else 0, place), wr_id=i)
    wanted = [0, 0]
    for me, kind, size, place, i in plan:
        a, b = ends[me], ends[1 - me]
        wanted[me] += 1
        if kind == "send":
            a.send(e.IBV_WR_SEND, a.sge(size, place), wr_id=i)
        elif kind == "write":
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(size, place), wr_id=i, remote=b.remote(place))
        elif kind == "imm":
            a.send(
                e.IBV_WR_RDMA_WRITE_WITH_IMM,
                a.sge(size, place),
                wr_id=i,
                remote=b.remote(place),
                imm=i,
            )
        elif kind == "read":
            a.send(e.IBV_WR_RDMA_READ, a.sge(size, place), wr_id=i, remote=b.remote(place))
        else:
            a.send(
                e.IBV_WR_ATOMIC_FETCH_AND_ADD,
                a.sge(8, place),
                wr_id=i,
                remote=b.remote(place),
                atomic=(i, 0),
            )
        if kind in ("send", "write", "imm"):
            expect[1 - me][place : place + size] = before[me][place : place + size]
        elif kind == "read":
            expect[me][place : place + size] = before[1 - me][place : place + size]
        else:
            old = before[1 - me][place : place + 8]
            expect[me][place : place + 8] = old
            expect[1 - me][place : place + 8] = (
                (int.from_bytes(old, "little") + i) % 2**64
            ).to_bytes(8, "little")
    for me, end in enumerate(ends):
        done = [wc.wr_id for wc in good(poll(end.cq, wanted[me], WAIT))]
        same(done, [p[4] for p in plan if p[0] == me], f"order of completions on side {me}")
        got = [wc.wr_id for wc in good(poll(end.rcq, receives[me], WAIT))]
        same(
            got,
            [p[4] for p in plan if p[0] != me and p[1] in ("send", "imm")],
            f"order of receives on side {me}",
        )
    for me, end in enumerate(ends):
        same(content(end) == bytes(expect[me]), True, f"memory of side {me} (seed {seed})")
        none_pending(end.cq, 0)
    shut(*ends)


def queue_wrap():
    """The rings go round many times."""
    a, b = pair(depth=8, cqe=8)
    for i in range(100):
        b.recv(b.sge(100, 100 * i), wr_id=i)
        a.send(e.IBV_WR_SEND, a.sge(100, 50 * i), wr_id=i)
        same(
            (good(poll(a.cq, 1, WAIT))[0].wr_id, good(poll(b.rcq, 1, WAIT))[0].wr_id),
            (i, i),
            "wr_ids",
        )
        same(content(b, 100 * i, 100) == content(a, 50 * i, 100), True, "data")
    shut(a, b)


V4, V6, ONE = {}, {"gids": (GID6_A, GID6_B)}, {"one": True}
CASES = [
    ("sends", sends, V4),
    ("writes", writes, V4),
    ("reads", reads, V4),
    ("atomics", atomics, V4),
    ("send with immediate", send_imm),
    ("write with immediate", write_imm),
    ("gather and scatter", multi_sge),
    ("fence", fence),
    ("unsignalled requests", unsignalled),
    ("PSN wrap", psn_wrap),
    ("a random program, seed 1", mixed, V4, 1),
    (
        "a random program, seed 2, another MTU",
        mixed,
        {"mtu": e.IBV_MTU_512 if FEW else e.IBV_MTU_4096},
        2,
    ),
    ("a random program over IPv6, seed 3", mixed, V6, 3),
    ("a random program, MTU 256, seed 4", mixed, {"mtu": e.IBV_MTU_256}, 4),
]
if not FEW:
    CASES += [
        ("inline data", inline),
        ("rings go round", queue_wrap),
        ("trains of requests", trains, V4),
        ("trains of requests over IPv6", trains, V6),
        ("trains of requests on one device", trains, ONE),
        ("sends over IPv6", sends, V6),
        ("writes over IPv6", writes, V6),
        ("reads over IPv6", reads, V6),
        ("sends on one device", sends, ONE),
        ("writes on one device", writes, ONE),
        ("reads on one device", reads, ONE),
        ("atomics on one device", atomics, ONE),
        ("a random program on one device", mixed, ONE, 5),
    ]

if __name__ == "__main__":
    main(CASES)
