# SPDX-License-Identifier: GPL-2.0
"""Fail each allocation and each user copy of the verbs' calls in turn (failing.py).

Usage: faults.py [case...]
"""

import errno
import itertools

import enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SendWR

from failing import EXPECTED, Fault, every_site
from mcast import GROUPS, Member, leave
from odp import SIZE, Memory
from odp_regions import FLUSH, PREFETCH_WRITE, advise, resident
from oxetest import (
    ALL_ACCESS,
    DEV_A,
    GID_A,
    End,
    ah_to,
    connect,
    good,
    host_a,
    host_b,
    main,
    out,
    poll,
    same,
    until,
)
from rereg import ACCESS, rereg


def close(thing, _):
    thing.close()


def context():
    # libibverbs tries several ways to open a device, and reports the error of the last one: it waits
    # for a file in /dev/char, a directory that there is not without udev.
    every_site(lambda _: Context(name=DEV_A), close, also=(errno.ENOENT, -1))


def with_host(call, undo=close):
    host = host_a()
    every_site(lambda _: call(host), undo)
    host.close()


def pd():
    with_host(lambda host: PD(host.ctx))


def cq():
    with_host(lambda host: CQ(host.ctx, 100))


def cq_with_channel():
    host = host_a()
    channel = CompChannel(host.ctx)
    every_site(lambda _: CQ(host.ctx, 100, None, channel, 0), close)
    host.close()


def resize():
    host = host_a()

    def call(made):
        made.resize(500)
        return made

    every_site(call, lambda _, made: made.close(), lambda: CQ(host.ctx, 10))
    host.close()


def qp(kind):
    host = host_a()
    cq_ = CQ(host.ctx, 100)
    init = QPInitAttr(
        qp_type=kind,
        scq=cq_,
        rcq=cq_,
        cap=QPCap(max_send_wr=20, max_recv_wr=20, max_send_sge=3, max_recv_sge=3),
    )
    every_site(lambda _: QP(host.pd, init), close)
    host.close()


def srq():
    with_host(lambda host: SRQ(host.pd, SrqInitAttr(SrqAttr(max_wr=20, max_sge=2))))


def srq_resize():
    host = host_a()

    def call(made):
        made.modify(SrqAttr(max_wr=200), e.IBV_SRQ_MAX_WR)
        return made

    def prepare():
        return SRQ(host.pd, SrqInitAttr(SrqAttr(max_wr=20, max_sge=2)))

    every_site(call, lambda _, made: made.close(), prepare)
    host.close()


def qp_on_srq():
    host = host_a()
    shared = SRQ(host.pd, SrqInitAttr(SrqAttr(max_wr=20, max_sge=2)))
    cq_ = CQ(host.ctx, 100)
    cap = QPCap(max_send_wr=20, max_send_sge=3)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq_, rcq=cq_, srq=shared, cap=cap)
    every_site(lambda _: QP(host.pd, init), close)
    host.close()


def mr():
    with_host(lambda host: MR(host.pd, 3 << 20, ALL_ACCESS))


def mr_on_demand():
    with_host(lambda host: MR(host.pd, 3 << 20, ALL_ACCESS | e.IBV_ACCESS_ON_DEMAND))


def mr_again():
    host = host_a()

    def call(made):
        rereg(host, made, ACCESS, access=ALL_ACCESS)
        return made

    every_site(call, lambda _, made: made.close(), lambda: MR(host.pd, 3 << 20, 0))
    host.close()


def prefetch(flags):
    """The pages of a region with on-demand paging are asked for, at once or later."""
    host = host_a()
    memory = Memory(host)

    def prepare():
        memory.drop()
        memory.fill(b"x" * (SIZE // 2))

    # Pages of processes, which are spared otherwise, fail too.
    spare = "/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem"
    with open(spare, "w", encoding="ascii") as file:
        file.write("0")
    every_site(lambda _: advise(memory, PREFETCH_WRITE, flags), lambda *_: None, prepare)
    with open(spare, "w", encoding="ascii") as file:
        file.write("1")
    if flags & FLUSH:
        same(resident(memory), True, "the pages are there")
    memory.mr.close()
    host.close()


def mw():
    with_host(lambda host: MW(host.pd, e.IBV_MW_TYPE_2))


def ah():
    a, b = host_a(), host_b()
    # libibverbs asks for the GID first, and reports only that there is none.
    every_site(lambda _: ah_to(a, b), close, also=(-1,))
    a.close()
    b.close()


def modify(step):
    """One step of RESET to INIT to RTR to RTS to ERR."""
    a, b = host_a(), host_b()
    peer = End(b)
    gid = b.gid_value()
    steps = [
        lambda x: x.to_init(),
        lambda x: x.to_rtr(gid, peer.qp.qp_num),
        lambda x: x.to_rts(),
        lambda x: x.to_state(e.IBV_QPS_ERR),
    ]

    def prepare():
        end = End(a, size=0)
        for earlier in steps[:step]:
            earlier(end)
        return end

    every_site(steps[step], lambda _, end: end.close(), prepare)
    a.close()
    b.close()


def responder_resources():
    """The number of the responder's resources changes; where that fails, atomics go on with those
    that there were."""
    a, b = End(host_a()), End(host_b())
    connect(a, b)
    a.to_state(e.IBV_QPS_SQD)
    until(lambda: a.state() == e.IBV_QPS_SQD, "SQD")
    numbers = itertools.cycle((128, 2, 64, 1))

    def prepare():
        b.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, b.sge(8), remote=a.remote(), atomic=(1, 0))
        good(poll(b.cq))

    def change(_):
        attr = QPAttr()
        attr.max_dest_rd_atomic = next(numbers)
        a.qp.modify(attr, e.IBV_QP_MAX_DEST_RD_ATOMIC)

    every_site(change, lambda *_: None, prepare)
    prepare()
    a.host.close()
    b.host.close()


def query():
    a, b = End(host_a()), End(host_b())
    connect(a, b)
    every_site(lambda _: a.state(), lambda *_: None)
    a.host.close()
    b.host.close()


def attach():
    member, group = Member(DEV_A, GID_A), GROUPS["IPv4"][0]
    member.attach(group)  # finds out its handle
    member.detach(group)
    every_site(lambda _: member.attach(group), lambda *_: member.detach(group))
    leave(member)


def posted(prepare, after=lambda b: None, **kw):
    """A fault while a request is posted and sent delays it, or fails it with a completion; the next
    one comes through. prepare(a, b) returns a call that posts a signaled request of a."""
    a, b = End(host_a(), **kw), End(host_b())
    connect(a, b, timeout=8)
    fault = Fault()
    for n in range(1, 60):
        post = prepare(a, b)
        fault.arm(n)
        try:
            post()
        except PyverbsRDMAError as error:
            # The doorbell failed: librxe has put the request into the ring, and a later doorbell
            # takes it along.
            injected = fault.disarm()
            same(
                (injected, error.error_code in EXPECTED),
                (True, True),
                f"site {n}, error {error.error_code}",
            )
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(1), remote=b.remote())
            good(poll(a.cq, 2))
        else:
            injected = fault.disarm()
            good(poll(a.cq))
        after(b)
        if not injected:
            break
    same(n > 1, True, "a site that could fail")
    out(f"# {n - 1} sites")
    a.host.close()
    b.host.close()


def traffic():
    def prepare(a, b):
        b.recv(b.sge(9000))
        return lambda: a.send(e.IBV_WR_SEND, a.sge(9000))

    posted(prepare, lambda b: good(poll(b.rcq)))


def bind():
    windows = []

    def prepare(a, _):
        windows.append(MW(a.host.pd, e.IBV_MW_TYPE_2))
        wr = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=e.IBV_SEND_SIGNALED)
        info = MWBindInfo(a.mr, a.mr.buf, 3000, e.IBV_ACCESS_REMOTE_READ)
        wr.set_bind_wr(windows[-1], info)
        return lambda: a.qp.post_send(wr)

    posted(prepare, access=ALL_ACCESS | e.IBV_ACCESS_MW_BIND)


CASES = [
    ("open the device", context),
    ("allocate a PD", pd),
    ("create a CQ", cq),
    ("create a CQ with a channel", cq_with_channel),
    ("resize a CQ", resize),
    ("create an RC queue pair", qp, e.IBV_QPT_RC),
    ("create a UD queue pair", qp, e.IBV_QPT_UD),
    ("create an SRQ", srq),
    ("resize an SRQ", srq_resize),
    ("create an RC QP on an SRQ", qp_on_srq),
    ("register memory", mr),
    ("register memory with on-demand paging", mr_on_demand),
    ("register memory anew", mr_again),
    ("ask for the pages of a region, at once", prefetch, FLUSH),
    ("ask for the pages of a region, later", prefetch, 0),
    ("allocate a window", mw),
    ("create an AH", ah),
    ("modify to INIT", modify, 0),
    ("modify to RTR", modify, 1),
    ("modify to RTS", modify, 2),
    ("modify to ERR", modify, 3),
    ("change the responder's resources", responder_resources),
    ("query a queue pair", query),
    ("attach to a multicast group", attach),
    ("post and send", traffic),
    ("post and bind a window", bind),
]

if __name__ == "__main__":
    main(CASES)
