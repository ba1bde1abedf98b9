# SPDX-License-Identifier: GPL-2.0
"""Microseconds for one round of a use of keys, one after another, between two queue pairs of this
process. Its Python is part of them.

Usage: single.py DEVICE GID-INDEX OPERATION COUNT

register   a region of 1 MiB is registered and deregistered
window     a window is bound to 4 KiB by a work request, the peer writes all of it, and the window
           is invalidated
"""

import ctypes
import mmap
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.wr import SendWR

import ticks

sys.path.append("/oxe/selftests/py")
# pylint: disable=wrong-import-position
from oxetest import ALL_ACCESS, SIG, End, Host, connect, good

WARM_UP = 16
HUGE = 2 << 20
ACCESS = ALL_ACCESS | e.IBV_ACCESS_MW_BIND


class Sleeper(End):
    """An end whose requests complete with an event, for which it sleeps."""

    def __init__(self, host):
        self.channel = CompChannel(host.ctx)
        super().__init__(host, access=ACCESS, send_cq=CQ(host.ctx, 64, None, self.channel, 0))
        self.cq.req_notify(False)

    def do(self, wr):
        self.qp.post_send(wr)
        self.channel.get_cq_event(self.cq)
        self.cq.ack_events(1)
        self.cq.req_notify(False)
        good(self.cq.poll(8)[1])


def register(host, _):
    # A huge page: otherwise the cost depends on how many of its pages happen to be contiguous.
    memory = mmap.mmap(-1, 2 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start += -start % HUGE
    ctypes.memset(start, 1, HUGE)

    def one():
        MR(host.pd, HUGE // 2, ACCESS, address=start).close()
        assert memory  # which stays mapped

    return one


def window(host, rounds):
    owner, user = Sleeper(host), Sleeper(host)
    connect(owner, user, mtu=host.ctx.query_port(1).active_mtu)
    info = MWBindInfo(owner.mr, owner.mr.buf, 4096, ALL_ACCESS)
    # Each is used once: rdma_rxe refuses the key that a window had last, and pyverbs has no other.
    windows = [MW(host.pd, e.IBV_MW_TYPE_2) for _ in range(rounds)]
    unused = iter(windows)

    def one():
        bind = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=SIG)
        bind.set_bind_wr(next(unused), info)
        owner.do(bind)
        part = [user.sge(4096)]
        write = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=part, send_flags=SIG)
        write.set_wr_rdma(bind.rkey, owner.mr.buf)
        user.do(write)
        invalidate = SendWR(opcode=e.IBV_WR_LOCAL_INV, num_sge=0, send_flags=SIG)
        invalidate.imm_data = bind.rkey
        owner.do(invalidate)

    return one


def main():
    device, gid, name, count = sys.argv[1:]
    one = {"register": register, "window": window}[name]
    one = one(Host(device, int(gid)), WARM_UP + int(count))
    for _ in range(WARM_UP):
        one()
    ticks.first()
    start = time.perf_counter()
    for _ in range(int(count)):
        one()
    took = time.perf_counter() - start
    ticks.last(int(count))
    print(took / int(count) * 1e6)


if __name__ == "__main__":
    main()
