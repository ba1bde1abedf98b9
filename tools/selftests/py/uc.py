# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections: messages whose memory is compared, attributes, shared receives,
windows."""

import ctypes
import os
import random
import socket

import enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SendWR

from oxetest import (
    DEV_A,
    GID6_A,
    GID6_B,
    GID_A,
    LOCAL,
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
    until,
)

SIZES = [0, 1, 3, 255, 1023, 1024, 1025, 2048, 4097, 65537, 200001]
BIG = 300000
PSN_A = 0xFFFFF0
NS_A, IP_A, IP_B = os.environ.get("NS_A", "oxt-a"), os.environ["IP4_A"], os.environ["IP4_B"]


def fill(end, seed):
    ctypes.memmove(end.mr.buf, random.Random(seed).randbytes(end.mr.length), end.mr.length)


def content(end, offset=0, length=None):
    return ctypes.string_at(end.mr.buf + offset, end.mr.length if length is None else length)


def pair(gids=(None, None), one=False, mtu=e.IBV_MTU_1024, **kw):
    """Two connected ends on two hosts, or on one device; their buffers hold different bytes."""
    a = End(host_a(gids[0]), e.IBV_QPT_UC, size=BIG, **kw)
    b = End(Host(DEV_A, GID_A) if one else host_b(gids[1]), e.IBV_QPT_UC, size=BIG, **kw)
    connect(a, b, psn_a=PSN_A, mtu=mtu)
    fill(a, 1)
    fill(b, 2)
    return a, b


def sends(opts):
    a, b = pair(**opts)
    want = bytearray(content(b))
    for i, size in enumerate(SIZES):
        b.recv(b.sge(size + 10), wr_id=i)
        a.send(e.IBV_WR_SEND, a.sge(size), wr_id=100 + i)
        (sent,) = good(poll(a.cq))
        (wc,) = good(poll(b.rcq))
        same((sent.wr_id, sent.opcode), (100 + i, e.IBV_WC_SEND), "send completion")
        same((wc.wr_id, wc.byte_len, wc.qp_num), (i, size, b.qp.qp_num), "receive completion")
        want[:size] = content(a, 0, size)
        same(content(b) == bytes(want), True, f"memory after a send of {size} bytes")
    shut(a, b)


def writes(opts):
    a, b = pair(**opts)
    want = bytearray(content(b))
    for i, size in enumerate(SIZES):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(size, 7), remote=b.remote(3 + i))
        good(poll(a.cq))
        b.recv(b.sge(0), wr_id=i)
        a.send(
            e.IBV_WR_RDMA_WRITE_WITH_IMM,
            a.sge(size, 50),
            remote=b.remote(90000),
            imm=socket.htonl(size + 1),
        )
        good(poll(a.cq))
        (wc,) = good(poll(b.rcq))
        same(
            (wc.wr_id, wc.opcode, wc.byte_len, socket.ntohl(wc.imm_data)),
            (i, e.IBV_WC_RECV_RDMA_WITH_IMM, size, size + 1),
            "completion",
        )
        want[3 + i : 3 + i + size] = content(a, 7, size)
        want[90000 : 90000 + size] = content(a, 50, size)
        same(content(b) == bytes(want), True, f"memory after writes of {size} bytes")
    shut(a, b)


def gathered(opts):
    """Gather, scatter, inline data, immediate data."""
    a, b = pair(**opts)
    chunks, into = [(5000, 1), (0, 4097), (9000, 513)], [(0, 3), (100, 4000), (7000, 608)]
    sent = b"".join(content(a, o, n) for o, n in chunks)
    b.recv(*[b.sge(n, o) for o, n in into])
    a.send(e.IBV_WR_SEND_WITH_IMM, *[a.sge(n, o) for o, n in chunks], imm=socket.htonl(77))
    good(poll(a.cq))
    (wc,) = good(poll(b.rcq))
    same((wc.byte_len, socket.ntohl(wc.imm_data)), (len(sent), 77), "completion")
    same(b"".join(content(b, o, n) for o, n in into) == sent, True, "scattered data")
    for size in (0, 1, 64):
        b.recv(b.sge(100))
        data = content(a, 0, size)
        a.send(e.IBV_WR_SEND, a.sge(size, 0, lkey=0xBAD), flags=SIG | e.IBV_SEND_INLINE)
        ctypes.memset(a.mr.buf, 0, size)
        good(poll(a.cq) + poll(b.rcq))
        same(content(b, 0, size), data, "inline data")
        fill(a, size)
    shut(a, b)


def train(opts):
    """Many messages, posted at once, of one length and of several: all arrive, in order, as there
    is a receive for each and nothing that loses packets."""
    a, b = pair(depth=128, cqe=512, sig_all=False, **opts)
    for sizes in ([64] * 100, [3000] * 60, [random.Random(5).randrange(3000) for _ in range(90)]):
        at = [sum(sizes[:i]) for i in range(len(sizes))]
        fill(a, len(sizes))
        for i, size in enumerate(sizes):
            b.recv(b.sge(size, at[i]), wr_id=i)
        wrs = []
        for i in reversed(range(len(sizes))):
            wrs.append(
                SendWR(
                    i,
                    opcode=e.IBV_WR_SEND,
                    num_sge=1,
                    sg=[a.sge(sizes[i], at[i])],
                    next_wr=wrs[-1] if wrs else None,
                    send_flags=0 if wrs else SIG,
                )
            )
        a.qp.post_send(wrs[-1])
        good(poll(a.cq))
        got = [(wc.wr_id, wc.byte_len) for wc in good(poll(b.rcq, len(sizes)))]
        same(got, list(enumerate(sizes)), "receives")
        total = sum(sizes)
        same(content(b, 0, total) == content(a, 0, total), True, "memory")
    shut(a, b)


def nothing_is_acknowledged():
    """IBTA 9.8.2: the receiver of a message sends nothing."""
    a, b = pair()
    before = counters(b.host.name)["sent_pkts"]
    for _ in range(10):
        b.recv(b.sge(5000))
        a.send(e.IBV_WR_SEND, a.sge(5000))
        good(poll(a.cq) + poll(b.rcq))
    same(counters(b.host.name)["sent_pkts"], before, "packets of the receiver")
    shut(a, b)


class Dropped:
    """with Dropped(end, "name"): meanwhile this counter of the end's device rises."""

    def __init__(self, end, name):
        self.device, self.name = end.host.name, name

    def __enter__(self):
        self.before = counters(self.device)[self.name]

    def __exit__(self, kind, *_):
        if kind is None:
            until(lambda: counters(self.device)[self.name] > self.before, f"a rise of {self.name}")


def next_one(a, b, receives=1):
    """The next message arrives, in a receive of its own, or in one that is left."""
    for _ in range(receives):
        b.recv(b.sge(4000, 10000), wr_id=77)
    a.send(e.IBV_WR_SEND, a.sge(3500, 400))
    good(poll(a.cq))
    (wc,) = good(poll(b.rcq))
    same((wc.wr_id, wc.byte_len), (77, 3500), "the next message")
    same(content(b, 10000, 3500) == content(a, 400, 3500), True, "its data")


def attributes():
    """A query returns what was set, and the PSNs as they are."""
    a, b = pair(mtu=e.IBV_MTU_512)
    b.recv(b.sge(5000))
    a.send(e.IBV_WR_SEND, a.sge(2000))
    good(poll(a.cq) + poll(b.rcq))
    mask = e.IBV_QP_STATE | e.IBV_QP_PATH_MTU | e.IBV_QP_SQ_PSN | e.IBV_QP_RQ_PSN
    attr, init = a.qp.query(mask)
    same(
        (attr.path_mtu, attr.sq_psn, attr.dest_qp_num, init.qp_type),
        (e.IBV_MTU_512, (PSN_A + 4) & 0xFFFFFF, b.qp.qp_num, e.IBV_QPT_UC),
        "attributes",
    )
    same(b.qp.query(mask)[0].rq_psn, (PSN_A + 4) & 0xFFFFFF, "the expected PSN")
    a.to_state(e.IBV_QPS_SQD)
    b.recv(b.sge(5000))
    a.send(e.IBV_WR_SEND, a.sge(10))
    none_pending(a.cq)
    a.to_state(e.IBV_QPS_RTS)
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def shared_receives(opts):
    """A message that is dropped leaves the receive that it took to the next one."""
    a = End(host_a(), e.IBV_QPT_UC, size=BIG)
    host = Host(DEV_A, GID_A) if opts.get("one") else host_b()
    srq = SRQ(host.pd, SrqInitAttr(SrqAttr(16, 1, 0)))
    b = End(host, e.IBV_QPT_UC, size=BIG, srq=srq)
    connect(a, b, psn_a=PSN_A)
    fill(a, 3)
    b.recv(b.sge(4000, 10000), wr_id=77)
    with Dropped(b, "rcvd_longer_than_buffer"):
        a.send(e.IBV_WR_SEND, a.sge(4001))
        good(poll(a.cq))
    next_one(a, b, receives=0)
    next_one(a, b)
    b.to_state(e.IBV_QPS_ERR)
    none_pending(b.rcq)
    b.qp.close()
    srq.close()
    shut(a, b)


def windows(opts):
    """A window that is bound over UC, written through, and invalid after it was bound anew."""
    a, b = pair(**opts)
    access = LOCAL | e.IBV_ACCESS_MW_BIND
    b.mr.close()
    b.mr = MR(b.host.pd, BIG, access)
    for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        mw = MW(b.host.pd, kind)
        keys = []
        for length in (1000, 2000):
            info = MWBindInfo(b.mr, b.mr.buf + 500, length, e.IBV_ACCESS_REMOTE_WRITE)
            if kind == e.IBV_MW_TYPE_1:
                b.qp.bind_mw(mw, MWBind(info, SIG))
                keys.append(mw.rkey)
                good(poll(b.cq))
                continue
            wr = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=SIG)
            wr.set_bind_wr(mw, info)
            b.qp.post_send(wr)
            good(poll(b.cq))
            keys.append(wr.rkey)
            break
        fill(a, kind)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(1000), remote=(b.mr.buf + 500, keys[-1]))
        good(poll(a.cq))
        until(lambda: content(b, 500, 1000) == content(a, 0, 1000), "the data")
        outside = (b.mr.buf + 499, keys[-1])
        for remote in [outside] + [(b.mr.buf + 500, key) for key in keys[:-1]]:
            with Dropped(b, "refused_request"):
                a.send(e.IBV_WR_RDMA_WRITE, a.sge(10), remote=remote)
                good(poll(a.cq))
        mw.close()
    shut(a, b)


def bind_behind_a_send(opts):
    """A bind request is carried out when the send before it needs its memory no more, without
    another doorbell."""
    a, b = pair(**opts)
    b.mr.close()
    b.mr = MR(b.host.pd, BIG, LOCAL | e.IBV_ACCESS_MW_BIND)
    a.recv(a.sge(100))
    mw = MW(b.host.pd, e.IBV_MW_TYPE_2)
    bind = SendWR(2, opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=SIG)
    bind.set_bind_wr(mw, MWBindInfo(b.mr, b.mr.buf, 1000, e.IBV_ACCESS_REMOTE_WRITE))
    send = SendWR(1, opcode=e.IBV_WR_SEND, num_sge=1, sg=[b.sge(100)], next_wr=bind)
    b.qp.post_send(send)
    same([wc.wr_id for wc in good(poll(b.cq, 2))], [1, 2], "completions")
    good(poll(a.rcq))
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(1000), remote=(b.mr.buf, bind.rkey))
    good(poll(a.cq))
    until(lambda: content(b, 0, 1000) == content(a, 0, 1000), "the data")
    mw.close()
    shut(a, b)


ONE, SIX = {"one": True}, {"gids": (GID6_A, GID6_B)}
CASES = [
    ("sends", sends, {}),
    ("sends over IPv6", sends, SIX),
    ("sends at path MTU 256", sends, {"mtu": e.IBV_MTU_256}),
    ("sends on one device", sends, ONE),
    ("writes", writes, {}),
    ("writes on one device", writes, ONE),
    ("gather, scatter, inline", gathered, {}),
    ("gather, scatter, inline on one device", gathered, ONE),
    ("trains of messages", train, {}),
    ("trains of messages on one device", train, ONE),
    ("nothing is acknowledged", nothing_is_acknowledged),
    ("attributes, a drained send queue", attributes),
    ("a shared receive queue", shared_receives, {}),
    ("a shared receive queue on one device", shared_receives, ONE),
    ("windows", windows, {}),
    ("windows on one device", windows, ONE),
    ("a bind behind a send", bind_behind_a_send, {}),
    ("a bind behind a send on one device", bind_behind_a_send, ONE),
]

if __name__ == "__main__":
    main(CASES)
