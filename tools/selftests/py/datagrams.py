# SPDX-License-Identifier: GPL-2.0
"""Datagrams (UD), with the memory of both sides compared byte for byte, and what their completions
tell of the way they came.

Usage: datagrams.py [case...]. Devices and GIDs come from the environment (see oxetest.py).
"""

import ipaddress
import os
import socket
import struct

import enums as e

from pyverbs.addr import AH
from pyverbs.wr import SendWR

from ops import WAIT, content, fill
from oxetest import (
    GID6_A,
    GID6_B,
    QKEY,
    SIG,
    End,
    Skip,
    ah_to,
    connect,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
)

OXE = os.environ.get("LINK_TYPE", "oxe") == "oxe"


def check_grh(grh, source, sink, udp_len):
    """A datagram with so many bytes from the UDP header on has its IP header before the payload."""
    ends = [ipaddress.ip_address(host.gid_value()).packed for host in (source, sink)]
    if grh[0] >> 4 == 6:
        same(
            (grh[8:40], grh[4:6]),
            (ends[0] + ends[1], udp_len.to_bytes(2, "big")),
            "IPv6 header in the GRH's place",
        )
        return
    same(
        (grh[20] >> 4, grh[32:40]),
        (4, ends[0][12:] + ends[1][12:]),
        "IPv4 header in the GRH's place",
    )
    same(
        sum(struct.unpack("!10H", grh[20:])) % 0xFFFF,
        0,
        "checksum of the header in the GRH's place",
    )
    same(int.from_bytes(grh[22:24], "big"), 20 + udp_len, "length there")


def datagrams(gids):
    a, b = (End(h, e.IBV_QPT_UD) for h in (host_a(gids[0]), host_b(gids[1])))
    connect(a, b)
    fill(a)
    ah = ah_to(a.host, b.host)
    for i, size in enumerate((0, 1, 2, 3, 1023, 1024)):
        b.recv(b.sge(2000, 0), wr_id=i)
        op = e.IBV_WR_SEND_WITH_IMM if i % 2 else e.IBV_WR_SEND
        a.send(
            op, a.sge(size, 10), ah=(ah, b.qp.qp_num, QKEY), imm=socket.htonl(77) if i % 2 else None
        )
        good(poll(a.cq, 1, WAIT))
        (wc,) = good(poll(b.rcq, 1, WAIT))
        same(
            (
                wc.wr_id,
                wc.byte_len,
                wc.src_qp,
                bool(wc.wc_flags & e.IBV_WC_GRH),
                bool(wc.wc_flags & e.IBV_WC_WITH_IMM),
            ),
            (i, size + 40, a.qp.qp_num, True, bool(i % 2)),
            "completion",
        )
        if i % 2:
            same(socket.ntohl(wc.imm_data), 77, "immediate")
        same(content(b, 40, size) == content(a, 10, size), True, "data after the GRH")
        udp_len = 8 + 12 + 8 + (4 if i % 2 else 0) + -(-size // 4) * 4 + 4
        check_grh(content(b, 0, 40), a.host, b.host, udp_len)
    shut(a, b)


def packet_type(gids):
    """A datagram's completion says in sl that it came by RoCE (8) over IPv6 (1) or IPv4 (2), as
    with mlx5, and as UCX wants it; all other completions have 0 there."""
    if not OXE:
        raise Skip("for oxe alone")
    (a, b), (c, d) = (
        (End(host_a(gids[0]), kind), End(host_b(gids[1]), kind))
        for kind in (e.IBV_QPT_UD, e.IBV_QPT_RC)
    )
    version = ipaddress.ip_address(a.host.gid_value()).ipv4_mapped and 4 or 6
    for x, y, ah, want in (
        (a, b, ah_to(a.host, b.host), 8 | {6: 1, 4: 2}[version]),
        (c, d, None, 0),
    ):
        connect(x, y)
        for _ in range(3):
            y.recv(y.sge(2000))
        for opcode in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM):
            x.send(opcode, x.sge(100), ah=ah and (ah, y.qp.qp_num, QKEY), imm=socket.htonl(1))
        same([wc.sl for wc in good(poll(y.rcq, 2, WAIT))], [want] * 2, "sl of receives")
        same([wc.sl for wc in good(poll(x.cq, 2, WAIT))], [0] * 2, "sl of sends")
        y.to_state(e.IBV_QPS_ERR)
        same([wc.sl for wc in poll(y.rcq, 1, WAIT)], [0], "sl of a receive that was flushed")
    shut(a, b, c, d)


def reply_by_completion(gids):
    """ibv_create_ah_from_wc, which takes sl over from the completion: the handle leads back to the
    sender."""
    a, b = (End(h, e.IBV_QPT_UD) for h in (host_a(gids[0]), host_b(gids[1])))
    connect(a, b)
    fill(a, 1)
    fill(b, 2)
    for end in (a, b):
        end.recv(end.sge(2000))
    a.send(e.IBV_WR_SEND, a.sge(100, 5000), ah=(ah_to(a.host, b.host), b.qp.qp_num, QKEY))
    (wc,) = good(poll(b.rcq, 1, WAIT))
    back = AH(b.host.pd, wc=wc, grh=b.mr.buf, port_num=1)
    b.send(e.IBV_WR_SEND, b.sge(300, 6000), ah=(back, wc.src_qp, QKEY))
    good(poll(b.cq, 1, WAIT))
    (wc,) = good(poll(a.rcq, 1, WAIT))
    same((wc.byte_len, wc.src_qp), (340, b.qp.qp_num), "the answer's completion")
    same(content(a, 40, 300) == content(b, 6000, 300), True, "the answer")
    shut(a, b)


def datagram_train(gids):
    """Many equal datagrams, posted at once: the receiver's kernel may take them in as one."""
    a, b = (End(h, e.IBV_QPT_UD) for h in (host_a(gids[0]), host_b(gids[1])))
    connect(a, b)
    fill(a)
    ah, count, size = ah_to(a.host, b.host), 48, 100
    for i in range(count):
        b.recv(b.sge(size + 40, i * 200))
    train = []
    for i in reversed(range(count)):
        train.append(
            SendWR(
                i,
                opcode=e.IBV_WR_SEND,
                num_sge=1,
                sg=[a.sge(size, i * size)],
                send_flags=SIG,
                next_wr=train[-1] if train else None,
            )
        )
        train[-1].set_wr_ud(ah, b.qp.qp_num, QKEY)
    a.qp.post_send(train[-1])
    good(poll(a.cq, count, WAIT))
    good(poll(b.rcq, count, WAIT))
    for i in range(count):
        check_grh(content(b, i * 200, 40), a.host, b.host, 8 + 12 + 8 + size + 4)
        same(
            content(b, i * 200 + 40, size) == content(a, i * size, size),
            True,
            f"data of datagram {i}",
        )
    shut(a, b)


CASES = [
    ("datagrams", datagrams, (None, None)),
    ("datagrams over IPv6", datagrams, (GID6_A, GID6_B)),
    ("packet type in a datagram's completion, for UCX", packet_type, (None, None)),
    ("packet type over IPv6", packet_type, (GID6_A, GID6_B)),
    ("answer by an AH made of a completion", reply_by_completion, (None, None)),
    ("answer by an AH made of a completion over IPv6", reply_by_completion, (GID6_A, GID6_B)),
    ("trains of datagrams", datagram_train, (None, None)),
    ("trains of datagrams over IPv6", datagram_train, (GID6_A, GID6_B)),
]

if __name__ == "__main__":
    main(CASES)
