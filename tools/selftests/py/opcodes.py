# SPDX-License-Identifier: GPL-2.0
"""Traffic that brings every opcode onto the wire once or more, over IPv4 and IPv6, with each number
of pad bytes."""

import socket

import enums as e

from oxetest import (
    GID6_A,
    GID6_B,
    QKEY,
    End,
    ah_to,
    connect,
    good,
    host_a,
    host_b,
    main,
    poll,
    shut,
)
from placement import REGION, Raw


def reliable(gids):
    a, b = Raw(host_a(gids[0])), Raw(host_b(gids[1]))
    connect(a, b, mtu=e.IBV_MTU_512)
    imm = socket.htonl(0x1234)
    for size in (0, 1, 2, 3, 100, 700, 1601):  # ONLY; FIRST and LAST; FIRST, MIDDLE and LAST
        for opcode in (
            e.IBV_WR_SEND,
            e.IBV_WR_SEND_WITH_IMM,
            e.IBV_WR_RDMA_WRITE,
            e.IBV_WR_RDMA_WRITE_WITH_IMM,
            e.IBV_WR_RDMA_READ,
        ):
            if opcode in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_RDMA_WRITE_WITH_IMM):
                b.recv(b.sge(3000))
            one_sided = opcode not in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM)
            a.send(
                opcode,
                a.sge(size),
                remote=b.remote() if one_sided else None,
                imm=(
                    imm
                    if opcode in (e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_RDMA_WRITE_WITH_IMM)
                    else None
                ),
            )
            good(poll(a.cq))
    for opcode in (e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP):
        a.send(opcode, a.sge(8), remote=b.remote(), atomic=(1, 2))
        good(poll(a.cq))
    a.store(b.remote(), b"12345678")
    a.flush(b.remote(), 3000)
    a.flush(b.remote(), 0, level=REGION)
    good(poll(a.cq, 3))
    # A NAK, last of all: it ends the connection.
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(10), remote=(b.mr.buf, b.mr.rkey ^ 0x5A5A00))
    poll(a.cq)
    shut(a, b)


def invalidating(gids):
    """SEND with invalidate in all its three forms; the key is unknown, so each ends its
    connection."""
    from pyverbs.wr import SendWR

    for size in (100, 700):
        a, b = End(host_a(gids[0])), End(host_b(gids[1]))
        connect(a, b, mtu=e.IBV_MTU_512)
        b.recv(b.sge(3000))
        wr = SendWR(
            1,
            opcode=e.IBV_WR_SEND_WITH_INV,
            num_sge=1,
            sg=[a.sge(size)],
            send_flags=e.IBV_SEND_SIGNALED,
        )
        wr.imm_data = 0x1234
        a.qp.post_send(wr)
        poll(a.cq)
        shut(a, b)


def not_ready(gids):
    """An RNR NAK."""
    a, b = End(host_a(gids[0])), End(host_b(gids[1]))
    connect(a, b, rnr=1, min_rnr=1)
    a.send(e.IBV_WR_SEND, a.sge(10))
    poll(a.cq)
    shut(a, b)


def datagrams(gids):
    a, b = End(host_a(gids[0]), e.IBV_QPT_UD), End(host_b(gids[1]), e.IBV_QPT_UD)
    connect(a, b)
    ah = ah_to(a.host, b.host)
    for size in (0, 1, 2, 3, 500):
        for opcode in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM):
            b.recv(b.sge(2000))
            a.send(
                opcode,
                a.sge(size),
                ah=(ah, b.qp.qp_num, QKEY),
                imm=socket.htonl(5) if opcode == e.IBV_WR_SEND_WITH_IMM else None,
            )
            good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


FAMILIES = (("IPv4", (None, None)), ("IPv6", (GID6_A, GID6_B)))
if __name__ == "__main__":
    main(
        [
            (f"{name} {what}", function, gids)
            for what, gids in FAMILIES
            for name, function in (
                ("reliable", reliable),
                ("invalidate", invalidating),
                ("receiver not ready", not_ready),
                ("datagram", datagrams),
            )
        ]
    )
