# SPDX-License-Identifier: GPL-2.0
"""Requests of a size that their operation does not have, or whose size is told wrongly, on the wire
and on one device."""

import ctypes

import enums as e
from pyverbs.qp import QPCap, QPEx, QPInitAttrEx

from oxetest import (
    QKEY,
    End,
    ah_to,
    connect,
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

ATOMICS = e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP


def ends(kind, near):
    a, b = End(host_a(), kind), End(host_a() if near else host_b(), kind)
    connect(a, b)
    return a, b


def atomic(near, *sizes):
    """An atomic stores eight bytes, no more. librxe refuses one of less by itself."""
    for opcode in ATOMICS:
        a, b = ends(e.IBV_QPT_RC, near)
        before = ctypes.string_at(b.mr.buf, 16)
        sges = [a.sge(size, 64 * i) for i, size in enumerate(sizes)]
        a.send(opcode, *sges, wr_id=1, remote=b.remote(), atomic=(0, 1))
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(16, 512), wr_id=2, remote=b.remote(512))
        got = [(wc.wr_id, status(wc)) for wc in poll(a.cq, 2)]
        same(got, [(1, "LOC_LEN_ERR"), (2, "WR_FLUSH_ERR")], "completions")
        same(ctypes.string_at(b.mr.buf, 16), before, "the word")
        shut(a, b)


def atomic_in_parts(near):
    """Eight bytes may lie in several places."""
    a, b = ends(e.IBV_QPT_RC, near)
    ctypes.memmove(b.mr.buf, bytes(range(8)), 8)
    ctypes.memset(a.mr.buf, 0xFF, 256)
    add = e.IBV_WR_ATOMIC_FETCH_AND_ADD
    a.send(add, a.sge(3), a.sge(0, 64), a.sge(5, 128), remote=b.remote(), atomic=(0, 0))
    good(poll(a.cq))
    got = ctypes.string_at(a.mr.buf, 4) + ctypes.string_at(a.mr.buf + 128, 6)
    same(got, bytes([0, 1, 2, 255, 3, 4, 5, 6, 7, 255]), "the original value")
    shut(a, b)


def datagram(near):
    """A datagram that does not fit in a packet fails, those behind it are flushed, and the send
    queue goes on when it is taken back to RTS."""
    a, b = ends(e.IBV_QPT_UD, near)
    to = (ah_to(a.host, b.host), b.qp.qp_num, QKEY)
    b.recv(b.sge(8000), wr_id=1)
    for i, length in enumerate((1024, 1025, 8), 1):
        a.send(e.IBV_WR_SEND, a.sge(length), wr_id=i, ah=to)
    got = [(wc.wr_id, status(wc)) for wc in poll(a.cq, 3)]
    same(got, [(1, "SUCCESS"), (2, "LOC_LEN_ERR"), (3, "WR_FLUSH_ERR")], "completions")
    same(good(poll(b.rcq))[0].byte_len, 1024 + 40, "the datagram that fits")
    same(a.state(), e.IBV_QPS_SQE, "state")
    a.to_state(e.IBV_QPS_RTS)
    b.recv(b.sge(8000), wr_id=2)
    a.send(e.IBV_WR_SEND, a.sge(8), wr_id=4, ah=to)
    good(poll(a.cq) + poll(b.rcq))
    none_pending(a.cq)
    shut(a, b)


def list_of_wr_start(near):
    """librxe's ibv_wr_set_sge_list (before rdma-core 64) gives a list a wrong sum. The elements tell
    the length, not that."""
    a, b = End(host_a()), End(host_a() if near else host_b())
    cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=4, max_recv_sge=4)
    init = QPInitAttrEx(
        qp_type=e.IBV_QPT_RC,
        scq=a.cq,
        rcq=a.rcq,
        cap=cap,
        pd=a.host.pd,
        sq_sig_all=1,
        send_ops_flags=e.IBV_QP_EX_WITH_SEND,
        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    )
    a.qp = QPEx(a.host.ctx, init)
    connect(a, b)
    ctypes.memmove(a.mr.buf, bytes(range(200)), 200)
    b.recv(b.sge(1000))
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 1, e.IBV_SEND_SIGNALED
    a.qp.wr_send()
    a.qp.wr_set_sge_list(3, [a.sge(50), a.sge(70, 60), a.sge(30, 150)])
    a.qp.wr_complete()
    good(poll(a.cq))
    same(good(poll(b.rcq))[0].byte_len, 150, "the length")
    want = bytes(range(200))
    want = want[:50] + want[60:130] + want[150:180]
    same(ctypes.string_at(b.mr.buf, 150), want, "the message")
    shut(a, b)


def cases():
    for near, place in ((False, "the wire"), (True, "one device")):
        for sizes in (9,), (16,), (8, 8), (4, 5):
            text = " and ".join(map(str, sizes))
            yield f"{place}: an atomic of {text} bytes", atomic, near, *sizes
        yield f"{place}: an atomic into three elements", atomic_in_parts, near
        yield f"{place}: a list of ibv_wr_set_sge_list", list_of_wr_start, near
        yield f"{place}: a datagram that is longer than the MTU", datagram, near


if __name__ == "__main__":
    main(cases())
