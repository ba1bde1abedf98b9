# SPDX-License-Identifier: GPL-2.0
"""Messages to another machine and back over one RC connection, compared byte for byte on both.

Usage: echo.py PORT SIZE COUNT [SERVER]: without SERVER this end waits for the other's TCP
connection on PORT, over which the two tell each other where their queue pairs are, and sends back
what it gets. Device and GID are those of DEV and GID4 (the environment). An ACK may take 4.096 us *
2^18 = 1 s.
"""

import ctypes
import os
import random
import sys

import enums as e

from oxetest import End, Host, good, poll, same
from peer import meet, swap

PORT, SIZE, COUNT = (int(word) for word in sys.argv[1:4])
SERVER = sys.argv[4] if len(sys.argv) > 4 else None
SENT, GOT = 0, SIZE  # where in the buffer


def connect(end, stream):
    """To RTS, connected to the peer at the other end of the stream."""
    psn = random.getrandbits(24)
    gid, qpn, peer_psn = swap(stream, (end.host.gid_value(), end.qp.qp_num, psn))
    end.to_init()
    end.to_rtr(gid, qpn, psn=peer_psn)
    end.recv(end.sge(SIZE, GOT))
    end.to_rts(psn=psn, timeout=18)


def take(end, expected):
    """The next message; there is room for the one after it."""
    good(poll(end.rcq, 1))
    same(
        ctypes.string_at(end.mr.buf + GOT, SIZE) == expected,
        True,
        "the bytes that came are those that were sent",
    )
    ctypes.memset(end.mr.buf + GOT, 0, SIZE)
    end.recv(end.sge(SIZE, GOT))


def give(end, data):
    ctypes.memmove(end.mr.buf + SENT, data, SIZE)
    end.send(e.IBV_WR_SEND, end.sge(SIZE, SENT))
    good(poll(end.cq))


with meet(PORT, SERVER) as connection, connection.makefile("rw") as wire:
    this = End(Host(os.environ["DEV"], int(os.environ["GID4"])), size=2 * SIZE)
    connect(this, wire)
    # The client begins when the server's receive is there.
    same(swap(wire, "ready"), "ready", "the other side's word")
    for number in range(COUNT):
        message = random.Random(number).randbytes(SIZE)
        for step in (give, take) if SERVER else (take, give):
            step(this, message)
    # Neither side leaves while the other may wait for an ACK.
    same(swap(wire, "done"), "done", "the other side's word")
    this.host.close()
