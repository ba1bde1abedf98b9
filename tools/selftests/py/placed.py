# SPDX-License-Identifier: GPL-2.0
"""ATOMIC WRITEs and FLUSHes to another machine over one RC connection, posted by librxe.

Usage: placed.py PORT COUNT FLUSH [SERVER]: without SERVER this end waits for the other's TCP
connection on PORT. Both ends write to the other's memory, flush it if FLUSH is 1, and compare what
came. Device and GID are those of DEV and GID4 (the environment).
"""

import ctypes
import os
import random
import sys

import enums as e
from pyverbs.qp import QPCap, QPEx, QPInitAttrEx

from oxetest import ALL_ACCESS, SIG, End, Host, good, poll, same, status
from peer import meet, swap

PORT, COUNT, FLUSH = (int(word) for word in sys.argv[1:4])
SERVER = sys.argv[4] if len(sys.argv) > 4 else None
SIZE = 8192
GLOBAL, PERSISTENT = 1, 2


class Extended(End):
    """An end with the interface for extended requests."""

    def __init__(self, host):
        super().__init__(host, size=SIZE, access=ALL_ACCESS | e.IBV_ACCESS_FLUSH_GLOBAL)
        self.qp.close()
        init = QPInitAttrEx(
            cap=QPCap(max_send_wr=64, max_recv_wr=1, max_send_sge=1, max_recv_sge=1),
            qp_type=e.IBV_QPT_RC,
            scq=self.cq,
            rcq=self.rcq,
            pd=host.pd,
            send_ops_flags=e.IBV_QP_EX_WITH_ATOMIC_WRITE | e.IBV_QP_EX_WITH_FLUSH,
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        )
        self.qp = QPEx(host.ctx, init)

    def post(self, request, *args):
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = 1, SIG
        getattr(self.qp, request)(*args)
        self.qp.wr_complete()
        return poll(self.cq)


def connect(end, stream):
    """To RTS; returns the address and the key of the peer's memory."""
    psn = random.getrandbits(24)
    mine = (end.host.gid_value(), end.qp.qp_num, psn, end.mr.buf, end.mr.rkey)
    gid, qpn, peer_psn, address, rkey = swap(stream, mine)
    end.to_init(end.access | e.IBV_ACCESS_FLUSH_PERSISTENT)
    end.to_rtr(gid, qpn, psn=peer_psn)
    end.to_rts(psn=psn, timeout=18)
    return address, rkey


def values(server):
    """The words that this side, or the other one, stores."""
    rng = random.Random(1 if server else 2)
    return [rng.randbytes(8) for _ in range(COUNT)]


with meet(PORT, SERVER) as connection, connection.makefile("rw") as wire:
    this = Extended(Host(os.environ["DEV"], int(os.environ["GID4"])))
    ctypes.memset(this.mr.buf, 0xC5, SIZE)
    remote, key = connect(this, wire)
    same(swap(wire, "ready"), "ready", "the other side's word")
    for number, value in enumerate(values(SERVER)):
        good(this.post("wr_atomic_write", key, remote + 8 * number, value))
    if FLUSH:
        good(this.post("wr_flush", key, remote, SIZE, GLOBAL, 0))
        good(this.post("wr_flush", key, 0, 0, GLOBAL, 1))
    same(swap(wire, "stored"), "stored", "the other side's word")
    want = b"".join(values(not SERVER)).ljust(SIZE, b"\xc5")
    same(ctypes.string_at(this.mr.buf, SIZE) == want, True, "the words that came")
    same(swap(wire, "compared"), "compared", "the other side's word")
    if SERVER and FLUSH:  # it ends the connection
        (refused,) = this.post("wr_flush", key, remote, 8, PERSISTENT, 0)
        same(status(refused), "REM_ACCESS_ERR", "a FLUSH for persistence")
    same(swap(wire, "done"), "done", "the other side's word")
    this.host.close()
