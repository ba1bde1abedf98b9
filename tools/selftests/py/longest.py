# SPDX-License-Identifier: GPL-2.0
"""The longest messages that a port takes, 2 GiB less one byte. Their buffers are a small file,
mapped again and again."""

import ctypes
import os

import enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE

from mapping import repeated
from oxetest import ALL_ACCESS, End, connect, good, host_a, host_b, main, poll, same, shut

LONGEST = (1 << 31) - 1
PIECE = 32 << 20


def message(near, mtu):
    a, b = End(host_a()), End(host_a() if near else host_b())
    # A lost packet of millions must not end the connection of a machine that is busy.
    connect(a, b, mtu=mtu, timeout=18)
    source, sink = repeated(1 << 31, PIECE), repeated(1 << 31, PIECE)
    ctypes.memmove(source, os.urandom(PIECE), PIECE)
    out = MR(a.host.pd, LONGEST, ALL_ACCESS, address=source)
    into = MR(b.host.pd, LONGEST, ALL_ACCESS, address=sink)
    same(a.host.ctx.query_port(1).max_msg_sz >= LONGEST, True, "the port takes it")

    def expect(what):
        same(ctypes.string_at(sink, PIECE) == ctypes.string_at(source, PIECE), True, what)
        ctypes.memset(sink, 0, PIECE)

    local = SGE(source, LONGEST, out.lkey)
    a.send(e.IBV_WR_RDMA_WRITE, local, remote=(sink, into.rkey))
    good(poll(a.cq, 1, 900))
    expect("the bytes written")
    b.recv(SGE(sink, LONGEST, into.lkey))
    a.send(e.IBV_WR_SEND, local)
    good(poll(a.cq, 1, 900))
    same(good(poll(b.rcq))[0].byte_len, LONGEST, "the length received")
    expect("the bytes sent")
    b.send(e.IBV_WR_RDMA_READ, SGE(sink, LONGEST, into.lkey), remote=(source, out.rkey))
    good(poll(b.cq, 1, 900))
    expect("the bytes read")
    for mr in out, into:
        mr.close()
    shut(a, b)


CASES = [
    ("WRITE, SEND, READ of 2 GiB less one byte, on the wire", message, False, e.IBV_MTU_4096),
    ("the same at path MTU 256: half of all PSNs each", message, False, e.IBV_MTU_256),
    ("the same on one device", message, True, e.IBV_MTU_4096),
]

if __name__ == "__main__":
    main(CASES)
