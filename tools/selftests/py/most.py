# SPDX-License-Identifier: GPL-2.0
"""As many objects as the device says that there may be, for a user other than root, and queues as
long as it says: a program that takes these numbers gets them."""

import errno
import os
import resource

import enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

from oxetest import (
    DEV_A,
    GID_A,
    LOCAL,
    End,
    Host,
    Skip,
    child,
    connect,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
)

ONE, TWO = 1001, 1002


def as_user(uid, function, meanwhile=lambda: None):
    """In a process of that user, which opens the device itself; another function runs here
    meanwhile."""

    def run():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
        os.setresuid(uid, uid, uid)
        function()

    same(child(run, meanwhile), True, "its end")


class Maker:
    """What objects are made of."""

    def __init__(self):
        self.host = Host(DEV_A, GID_A)
        self.cq = CQ(self.host.ctx, 4)
        self.mr = MR(self.host.pd, 4096, LOCAL)
        route = GlobalRoute(dgid=self.host.ctx.query_gid(1, GID_A), sgid_index=GID_A, hop_limit=1)
        self.to = AHAttr(port_num=1, is_global=1, gr=route, dlid=0)
        cap = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
        self.init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)

    def max_pd(self):
        return PD(self.host.ctx)

    def max_cq(self):
        return CQ(self.host.ctx, 1)

    def max_qp(self):
        return QP(self.host.pd, self.init)

    def max_srq(self):
        return SRQ(self.host.pd, SrqInitAttr(SrqAttr(1, 1, 0)))

    def max_mr(self):
        return MR(self.host.pd, 4096, LOCAL, self.mr.buf)

    def max_mw(self):
        return MW(self.host.pd, e.IBV_MW_TYPE_1)

    def max_ah(self):
        return AH(self.host.pd, attr=self.to)


# Those that Maker itself has.
OWN = {"max_pd": 1, "max_cq": 1, "max_mr": 1, "max_mw": 1}


def objects(name):
    """A user makes as many, and no more; another one gets some meanwhile; they come back with the
    process."""
    if os.environ.get("SHORT"):
        raise Skip("tens of thousands take long")

    has_all, says_so = os.pipe()
    may_end, lets_end = os.pipe()

    def take():
        maker = Maker()
        make = getattr(maker, name)
        most = getattr(maker.host.ctx.query_device(), name)
        made = []
        try:
            while len(made) <= most:
                made.append(make())
        except PyverbsRDMAError as error:
            got = len(made) + OWN.get(name, 0), error.error_code
        os.write(says_so, b"x")
        os.read(may_end, 1)
        same(got, (most, errno.ENOMEM), "how many, and the errno of one more")
        # pyverbs would close each of them.
        os._exit(0)

    def another():
        os.read(has_all, 1)
        try:
            as_user(TWO, one)
        finally:
            os.write(lets_end, b"x")

    def one():
        getattr(Maker(), name)()

    as_user(ONE, take, another)
    as_user(ONE, one)


def longest_queues():
    """The longest receive queue, shared receive queue and CQ are filled."""
    if os.environ.get("SHORT"):
        raise Skip("98,302 messages take long")
    dev = host_a().ctx.query_device()
    for shared in (False, True):
        most = dev.max_srq_wr if shared else dev.max_qp_wr
        a, host = End(host_a(), depth=128), host_b()
        srq = SRQ(host.pd, SrqInitAttr(SrqAttr(most, 1, 0))) if shared else None
        cq = CQ(host.ctx, dev.max_cqe)
        b = End(host, depth=64 if shared else most, sges=1, recv_cq=cq, srq=srq)
        connect(a, b)
        sge = SGE(b.mr.buf, 8, b.mr.lkey)
        for i in range(most):
            (srq or b.qp).post_recv(RecvWR(i, 1, [sge]))
        for i in range(0, most, 64):
            count = min(64, most - i)
            for _ in range(count):
                a.send(e.IBV_WR_SEND, a.sge(8))
            good(poll(a.cq, count))
        got = [wc.wr_id for wc in good(poll(cq, most))]
        same(got == list(range(most)), True, "the receives, in order")
        none_pending(cq)
        shut(a, b)


def longest_send_queue():
    """The longest send queue is filled before anything can be sent, and sends all of it."""
    host = host_a()
    most = host.ctx.query_device().max_qp_wr
    a = End(host, depth=most, sges=1, inline=0, cqe=host.ctx.query_device().max_cqe)
    b = End(host_b())
    connect(a, b, rnr=7, min_rnr=20)
    # The first one waits for its receive.
    a.send(e.IBV_WR_SEND, a.sge(8), wr_id=0)
    for i in range(1, most):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), wr_id=i, remote=b.remote())
    b.recv(b.sge(8))
    got = [wc.wr_id for wc in good(poll(a.cq, most))]
    same(got == list(range(most)), True, "the requests, in order")
    shut(a, b)


CASES = [(f"as many as {name}", objects, name) for name in dir(Maker) if name.startswith("max_")]
CASES += [
    ("the longest receive queues", longest_queues),
    ("the longest send queue", longest_send_queue),
]

if __name__ == "__main__":
    main(CASES)
