# SPDX-License-Identifier: GPL-2.0
"""Connections that only one device can have: of a queue pair with itself, in a ring; and what goes
on at both ends at once."""

import ctypes
import errno
import os
import random

import enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

from oxetest import (
    DEV_A,
    GID_A,
    End,
    Host,
    Skip,
    child,
    counters,
    errno_of,
    gid_object,
    good,
    host_a,
    main,
    none_pending,
    pair,
    poll,
    same,
    shut,
    status,
)


def fill(end, seed):
    data = random.Random(seed).randbytes(end.mr.length)
    ctypes.memmove(end.mr.buf, data, len(data))
    return bytearray(data)


def content(end):
    return ctypes.string_at(end.mr.buf, end.mr.length)


def join(end, peer, psn=0x77, **rts):
    """Brings end to RTS, connected to peer, whatever peer is connected to."""
    end.to_init()
    end.to_rtr(peer.host.gid_value(), peer.qp.qp_num, psn=psn)
    end.to_rts(psn=psn, **rts)


def to_itself():
    a = End(host_a(), size=200000)
    join(a, a)
    want = fill(a, 1)
    a.recv(a.sge(50000, 100000))
    a.send(e.IBV_WR_SEND, a.sge(50000, 0))
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(9000, 1000), remote=a.remote(60000))
    a.send(e.IBV_WR_RDMA_READ, a.sge(9000, 70000), remote=a.remote(2000))
    a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, a.sge(8, 80000), remote=a.remote(90000), atomic=(5, 0))
    good(poll(a.cq, 4) + poll(a.rcq))
    want[100000:150000] = want[:50000]
    want[60000:69000] = want[1000:10000]
    want[70000:79000] = want[2000:11000]
    old = want[90000:90008]
    want[80000:80008] = old
    want[90000:90008] = ((int.from_bytes(old, "little") + 5) % 2**64).to_bytes(8, "little")
    same(content(a) == bytes(want), True, "memory")
    shut(a)


def to_itself_many():
    """More than fits into its own receive queue at a time: it waits for itself."""
    a = End(host_a(), size=1 << 16, depth=64)
    join(a, a, rnr=7)
    for i in range(40):
        a.send(e.IBV_WR_SEND, a.sge(3000, 0), wr_id=i)
    none_pending(a.cq, 0.1)
    for i in range(40):
        a.recv(a.sge(3000, 4096), wr_id=i)
    same([wc.wr_id for wc in good(poll(a.cq, 40))], list(range(40)), "sends")
    same([wc.wr_id for wc in good(poll(a.rcq, 40))], list(range(40)), "receives")
    shut(a)


def ring():
    """Each sends to the next, which is connected to another one: no message is taken, each request
    completes."""
    host = host_a()
    ends = [End(host) for _ in range(40)]
    for i, end in enumerate(ends):
        join(end, ends[(i + 1) % len(ends)], timeout=8, retry=2)
    for end in ends:
        for n in range(4):
            end.send(e.IBV_WR_RDMA_WRITE, end.sge(2000), wr_id=n, remote=ends[0].remote())
    for end in ends:
        wcs = poll(end.cq, 4, 60)
        same([wc.wr_id for wc in wcs], list(range(4)), "completions in order")
    shut(*ends)


def crossfire():
    """Both ends have much to send at once; each message has a place of its own."""
    count, size = 60, 70001
    a, b = pair(size=2 * count * size, depth=count + 4, rnr=7)
    want_a, want_b = fill(a, 1), fill(b, 2)
    for i in range(count):
        for end in (a, b):
            end.recv(end.sge(size, (count + i) * size), wr_id=i)
    for i in range(count):
        for end in (a, b):
            end.send(e.IBV_WR_SEND, end.sge(size, i * size), wr_id=i)
    for end in (a, b):
        same([wc.wr_id for wc in good(poll(end.cq, count))], list(range(count)), "sends")
        same([wc.wr_id for wc in good(poll(end.rcq, count))], list(range(count)), "receives")
    half = count * size
    want_a[half:], want_b[half:] = want_b[:half], want_a[:half]
    same((content(a) == bytes(want_a), content(b) == bytes(want_b)), (True, True), "memory")
    shut(a, b)


def long_message():
    """More bytes than are copied at a time; unaligned at both ends."""
    size = 20_000_000
    a, b = pair(size=size + 100)
    want, sent = fill(b, 3), fill(a, 4)
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(size, 1), remote=b.remote(7))
    good(poll(a.cq, 1, 60))
    want[7 : 7 + size] = sent[1 : 1 + size]
    same(content(b) == bytes(want), True, "written memory")
    a.send(e.IBV_WR_RDMA_READ, a.sge(size, 3), remote=b.remote(5))
    good(poll(a.cq, 1, 60))
    sent[3 : 3 + size] = want[5 : 5 + size]
    same(content(a) == bytes(sent), True, "read memory")
    shut(a, b)


def sender_memory_gone():
    """A send that waits for a receiver when its memory is deregistered: its own error, as on the
    wire."""
    a, b = pair(rnr=7, min_rnr=1)
    a.send(e.IBV_WR_SEND, a.sge(1000), wr_id=1)
    none_pending(a.cq, 0.1)
    a.mr.close()
    a.mr = None
    (wc,) = poll(a.cq)
    same((wc.wr_id, status(wc)), (1, "LOC_PROT_ERR"), "the send")
    shut(a, b)


def path_mtu():
    """A program sees the path MTU that it has set."""
    a, b = pair(mtu=e.IBV_MTU_512)
    attr, _ = a.qp.query(e.IBV_QP_PATH_MTU)
    same(attr.path_mtu, e.IBV_MTU_512, "path MTU")
    shut(a, b)


def other_way():
    """A connection does not change over between packets and loopback; one by packets may get any
    address."""
    a, b = pair()
    other = Host(os.environ["OTHER"], int(os.environ["OTHER_GID"]))
    attr = QPAttr(port_num=1)
    attr.qp_state = e.IBV_QPS_SQD
    a.qp.modify(attr, e.IBV_QP_STATE)
    none_pending(a.cq)
    attr.ah_attr = AHAttr(
        port_num=1,
        is_global=1,
        gr=GlobalRoute(dgid=gid_object(other.gid_value()), sgid_index=GID_A),
        dlid=0,
    )
    want = errno.EINVAL if os.environ["PACKETS"] == "none" else 0
    same(errno_of(a.qp.modify, attr, e.IBV_QP_STATE | e.IBV_QP_AV), want, "another address")
    shut(a, b)
    other.close()


def forge(address, rkey, gid, qpn, psn):
    """In a process of its own: a queue pair sends and writes that is connected to qpn, though qpn
    is not to it."""
    c = End(host_a())
    c.to_init()
    c.to_rtr(gid, qpn)
    c.to_rts(psn=psn, timeout=8, retry=1)
    ctypes.memset(c.mr.buf, 0xEE, c.mr.length)
    c.send(e.IBV_WR_SEND, c.sge(500), wr_id=1)
    c.send(e.IBV_WR_RDMA_WRITE, c.sge(500), wr_id=2, remote=(address, rkey))
    wcs = poll(c.cq, 2)
    same(
        [(wc.wr_id, status(wc)) for wc in wcs],
        [(1, "RETRY_EXC_ERR"), (2, "WR_FLUSH_ERR")],
        "the forger's requests",
    )


def forged_sender():
    """A queue pair takes nothing from one that it is not connected to: not even if addresses and
    PSN are right."""
    if os.environ["PACKETS"] != "none":
        raise Skip("a packet of a connection does not tell which queue pair sent it")
    a, b = pair(psn_a=0x123)
    ctypes.memset(b.mr.buf, 0xBB, b.mr.length)
    b.recv(b.sge(1000), wr_id=7)
    before = counters(DEV_A)["rcvd_wrong_src_qp"]
    remote, gid, qpn = b.remote(2000), b.host.gid_value(), b.qp.qp_num
    same(child(lambda: forge(*remote, gid, qpn, 0x123)), True, "the forger's process lived")
    same(content(b) == b"\xbb" * b.mr.length, True, "the victim's memory")
    none_pending(b.rcq)
    same(counters(DEV_A)["rcvd_wrong_src_qp"] > before, True, "the forged ones are counted")
    fill(a, 9)
    a.send(e.IBV_WR_SEND, a.sge(600), wr_id=1)
    good(poll(a.cq))
    (wc,) = good(poll(b.rcq))
    same(
        (wc.wr_id, wc.byte_len, content(b)[:600] == content(a)[:600]),
        (7, 600, True),
        "the true message",
    )
    shut(a, b)


CASES = [
    ("a queue pair with itself", to_itself),
    ("a queue pair that waits for itself", to_itself_many),
    ("a ring of queue pairs", ring),
    ("crossfire", crossfire),
    ("a long message", long_message),
    ("a sender's memory that is gone", sender_memory_gone),
    ("path MTU", path_mtu),
    ("another way", other_way),
    ("a sender that is not the peer", forged_sender),
]

if __name__ == "__main__":
    main(CASES)
