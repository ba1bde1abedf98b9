# SPDX-License-Identifier: GPL-2.0
"""Shared receive queues: several queue pairs take from one, and what becomes of the receives."""

import ctypes
import errno

import enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

from oxetest import (
    LOCAL,
    QKEY,
    SLOW,
    End,
    ah_to,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    next_event,
    none_pending,
    poll,
    same,
    shut,
    status,
    with_events,
)

PLACE = 4096  # bytes of each receive


class Shared:
    """A host with a shared receive queue, and a region with a place for each receive."""

    def __init__(self, max_wr=64, max_sge=2, limit=0):
        self.host, self.events = with_events(host_b)
        self.srq = SRQ(self.host.pd, SrqInitAttr(SrqAttr(max_wr, max_sge, limit)))
        self.mr = MR(self.host.pd, 256 * PLACE, LOCAL)
        self.rcq = CQ(self.host.ctx, 1024)

    def post(self, *wr_ids, length=PLACE):
        for i in wr_ids:
            sge = SGE(self.mr.buf + i % 256 * PLACE, length, self.mr.lkey)
            self.srq.post_recv(RecvWR(i, 1, [sge]))

    def end(self, qp_type=e.IBV_QPT_RC):
        """A queue pair that takes from the queue; all complete their receives to one CQ."""
        return End(self.host, qp_type, size=PLACE, recv_cq=self.rcq, srq=self.srq)

    def text(self, i, length):
        return ctypes.string_at(self.mr.buf + i % 256 * PLACE, length)

    def event(self, seconds=60):
        return next_event(self.host, self.events, seconds)


def connected(shared, count=2, **rts):
    """So many queue pairs that share, each with its peer on host A."""
    ends = [(End(host_a()), shared.end()) for _ in range(count)]
    for a, b in ends:
        connect(a, b, **rts)
    return ends


def fill(end, text):
    ctypes.memmove(end.mr.buf, text, len(text))


def close(shared, ends):
    for a, _ in ends:
        shut(a)
    shared.host.close()


def many_take_from_one():
    """Three queue pairs; each message takes one receive, in the order of their arrival."""
    shared = Shared()
    ends = connected(shared, 3)
    shared.post(*range(48))
    for i in range(48):
        a, b = ends[i % 3]
        fill(a, b"message %03d" % i)
        a.send(e.IBV_WR_SEND, a.sge(11), wr_id=i)
        good(poll(a.cq))
        (wc,) = good(poll(shared.rcq))
        same(
            (wc.wr_id, wc.qp_num), (i, b.qp.qp_num), "the receive, and the queue pair that took it"
        )
        same(shared.text(i, 11), b"message %03d" % i, "the message")
    none_pending(shared.rcq)
    close(shared, ends)


def all_at_once():
    """Long messages of all queue pairs at the same time: each receive is completed once."""
    shared = Shared(max_wr=200)
    ends = connected(shared, 4)
    shared.post(*range(200))
    for number, (a, _) in enumerate(ends):
        fill(a, bytes([65 + number]) * PLACE)
        for i in range(50):
            a.send(e.IBV_WR_SEND, a.sge(PLACE), wr_id=i)
    for a, _ in ends:
        good(poll(a.cq, 50))
    wcs = good(poll(shared.rcq, 200))
    same(sorted(wc.wr_id for wc in wcs), list(range(200)), "the receives that were completed")
    letters = {b.qp.qp_num: bytes([65 + n]) for n, (_, b) in enumerate(ends)}
    for wc in wcs:
        same(shared.text(wc.wr_id, PLACE), letters[wc.qp_num] * PLACE, "a message")
    close(shared, ends)


def empty():
    """Without a receive the sender waits (RNR); any queue pair may take the next one."""
    shared = Shared()
    ends = connected(shared)
    for number, (a, _) in enumerate(ends):
        a.send(e.IBV_WR_SEND, a.sge(8), wr_id=number)
    none_pending(shared.rcq)
    shared.post(1, 2)
    same(sorted(wc.wr_id for wc in good(poll(shared.rcq, 2))), [1, 2], "the receives")
    for a, _ in ends:
        good(poll(a.cq))
    close(shared, ends)


def write_with_immediate():
    shared = Shared()
    ((a, b),) = ends = connected(shared, 1)
    shared.post(5)
    a.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, a.sge(100), remote=b.remote(), imm=0x01020304)
    (wc,) = good(poll(shared.rcq))
    same((wc.wr_id, wc.byte_len), (5, 100), "the receive")
    close(shared, ends)


def attributes():
    """What was asked for is a minimum; a queue pair has no receive queue of its own."""
    shared = Shared(max_wr=100, max_sge=3, limit=9)
    attr = shared.srq.query()
    same(attr.max_wr >= 100 and attr.max_sge >= 3, True, f"sizes ({attr.max_wr}, {attr.max_sge})")
    same(attr.srq_limit, 9, "limit")
    end = shared.end()
    _, init = end.qp.query(e.IBV_QP_CAP)
    same((init.cap.max_recv_wr, init.cap.max_recv_sge), (0, 0), "sizes of a receive queue")
    shared.host.close()


def refused():
    """Sizes and limits out of range."""
    host = host_b()
    most = host.ctx.query_device()
    same(most.max_srq > 0 and most.max_srq_wr >= 1024 and most.max_srq_sge >= 27, True, "limits")

    def create(max_wr, max_sge, limit=0):
        return errno_of(SRQ, host.pd, SrqInitAttr(SrqAttr(max_wr, max_sge, limit)))

    same(create(0, 1), errno.EINVAL, "no receives at all")
    same(create(most.max_srq_wr + 1, 1), errno.EINVAL, "more than the device has")
    same(create(2**32 - 1, 1), errno.EINVAL, "as many as can be said")
    same(create(8, most.max_srq_sge + 1), errno.EINVAL, "too many SGEs")
    same(create(8, 1, 1000), errno.EINVAL, "a limit that is never reached")
    shared = Shared(max_wr=8)

    def modify(mask, **attr):
        return errno_of(shared.srq.modify, SrqAttr(**attr), mask)

    same(modify(e.IBV_SRQ_LIMIT, srq_limit=1000), errno.EINVAL, "a limit beyond the size")
    same(modify(e.IBV_SRQ_LIMIT | 4, srq_limit=1), errno.EINVAL, "an attribute that there is not")
    same(shared.srq.query().srq_limit, 0, "the limit after that")
    shared.host.close()
    host.close()


def limit():
    """The event comes once, when fewer are left than the limit; then the limit is 0."""
    shared = Shared()
    ((a, _),) = ends = connected(shared, 1)
    shared.post(*range(10))
    shared.srq.modify(SrqAttr(srq_limit=8), e.IBV_SRQ_LIMIT)
    seen = []
    for i in range(10):
        a.send(e.IBV_WR_SEND, a.sge(8), wr_id=i)
        good(poll(a.cq) + poll(shared.rcq))
        left = shared.srq.query().srq_limit
        seen.append(left)
    same(seen, [8, 8] + [0] * 8, "the limit after each message")
    events = [shared.event()]
    while (more := shared.event(0.2 / SLOW)) is not None:
        events.append(more)
    same(events.count(e.IBV_EVENT_SRQ_LIMIT_REACHED), 1, f"limit events among {events}")
    close(shared, ends)


def resize():
    """Receives that are posted survive; a size that they exceed is refused, and harms nothing."""
    shared = Shared(max_wr=31)
    ((a, _),) = ends = connected(shared, 1)

    def message(i):
        a.send(e.IBV_WR_SEND, a.sge(8), wr_id=i)
        good(poll(a.cq))
        (wc,) = good(poll(shared.rcq))
        same(wc.wr_id, i, "the receive")

    # The indices are in the middle of the ring when it is exchanged.
    shared.post(*range(25))
    for i in range(20):
        message(i)
    shared.post(*range(25, 40))
    shared.srq.modify(SrqAttr(max_wr=100), e.IBV_SRQ_MAX_WR)
    same(shared.srq.query().max_wr >= 100, True, "the new size")
    shared.post(*range(40, 120))
    for i in range(20, 60):
        message(i)
    fails = errno_of(shared.srq.modify, SrqAttr(max_wr=31), e.IBV_SRQ_MAX_WR)
    same(fails, errno.EINVAL, "a size that the posted receives exceed")
    for i in range(60, 110):
        message(i)
    shared.srq.modify(SrqAttr(max_wr=15), e.IBV_SRQ_MAX_WR)
    same(shared.srq.query().max_wr, 15, "a smaller size")
    for i in range(110, 120):
        message(i)
    none_pending(shared.rcq)
    close(shared, ends)


def error():
    """One queue pair fails: its peer's message is lost, the receives are there for the other one."""
    shared = Shared()
    (a, b), (a2, b2) = ends = connected(shared)
    shared.post(1, 2, 3)
    b.to_state(e.IBV_QPS_ERR)
    same(shared.event(), e.IBV_EVENT_QP_LAST_WQE_REACHED, "the event")
    none_pending(shared.rcq)
    for i in (1, 2, 3):
        a2.send(e.IBV_WR_SEND, a2.sge(8), wr_id=i)
    same([wc.wr_id for wc in good(poll(shared.rcq, 3))], [1, 2, 3], "the receives")
    # Used again, it fails again, and says so again.
    b.to_state(e.IBV_QPS_RESET)
    b.to_init()
    b.to_state(e.IBV_QPS_ERR)
    same(shared.event(), e.IBV_EVENT_QP_LAST_WQE_REACHED, "the event after that")
    same(b2.state(), e.IBV_QPS_RTS, "the other queue pair")
    close(shared, ends)


def bad_receive():
    """A receive with a wrong key fails the queue pair that takes it, and no other."""
    shared = Shared()
    (a, b), (a2, b2) = ends = connected(shared)
    shared.srq.post_recv(RecvWR(1, 1, [SGE(shared.mr.buf, 100, shared.mr.lkey ^ 0x5A5A00)]))
    shared.post(2)
    a.send(e.IBV_WR_SEND, a.sge(8))
    same(status(poll(a.cq)[0]), "REM_OP_ERR", "the sender's completion")
    (wc,) = poll(shared.rcq)
    same((wc.wr_id, status(wc), wc.qp_num), (1, "LOC_PROT_ERR", b.qp.qp_num), "the receive")
    a2.send(e.IBV_WR_SEND, a2.sge(8))
    same([wc.wr_id for wc in good(poll(shared.rcq))], [2], "the next one")
    same((b.state(), b2.state()), (e.IBV_QPS_ERR, e.IBV_QPS_RTS), "states")
    close(shared, ends)


def past_the_region():
    """A receive that goes on behind the end of its region takes a message that does not (perftest
    posts such ones); a longer message fails."""
    shared = Shared()
    ((a, b),) = ends = connected(shared, 1)
    at = shared.mr.buf + shared.mr.length - 100
    for i in (1, 2):
        shared.srq.post_recv(RecvWR(i, 1, [SGE(at, PLACE, shared.mr.lkey)]))
    a.send(e.IBV_WR_SEND, a.sge(100))
    good(poll(a.cq) + poll(shared.rcq))
    a.send(e.IBV_WR_SEND, a.sge(101))
    same(status(poll(a.cq)[0]), "REM_OP_ERR", "the sender's completion")
    same(status(poll(shared.rcq)[0]), "LOC_PROT_ERR", "the receive")
    close(shared, ends)


def domain():
    """The keys of a receive are those of the queue's protection domain, not of the queue pair's."""
    shared = Shared()
    other = PD(shared.host.ctx)
    a = End(host_a())
    kept, shared.host.pd = shared.host.pd, other
    b = shared.end()
    shared.host.pd = kept
    connect(a, b)
    shared.post(1)
    a.send(e.IBV_WR_SEND, a.sge(8))
    good(poll(a.cq) + poll(shared.rcq))
    close(shared, [(a, b)])


def datagrams():
    """Two UD queue pairs; a datagram that is too long for its receive leaves it for the next one."""
    shared = Shared()
    a = End(host_a(), e.IBV_QPT_UD)
    ends = [shared.end(e.IBV_QPT_UD) for _ in range(2)]
    for end in (a, *ends):
        bring_up(end)
    ah = ah_to(a.host, shared.host)

    def send(b, length):
        a.send(e.IBV_WR_SEND, a.sge(length), ah=(ah, b.qp.qp_num, QKEY))
        good(poll(a.cq))

    shared.post(1, length=140)
    shared.post(2, 3)
    send(ends[0], 101)
    none_pending(shared.rcq)
    send(ends[1], 101)
    send(ends[0], 100)
    wcs = good(poll(shared.rcq, 2))
    found = sorted((wc.wr_id, wc.qp_num) for wc in wcs)
    want = [(1, ends[0].qp.qp_num), (2, ends[1].qp.qp_num)]
    same(found, want, "receives and the queue pairs that took them")
    a.host.close()
    shared.host.close()


def bring_up(end):
    end.to_init()
    end.to_rtr(None, 0)
    end.to_rts()


CASES = [
    ("many queue pairs take from one queue", many_take_from_one),
    ("all at once", all_at_once),
    ("an empty queue", empty),
    ("WRITE with immediate", write_with_immediate),
    ("attributes", attributes),
    ("sizes and limits out of range", refused),
    ("the limit event", limit),
    ("resize", resize),
    ("a queue pair in error leaves the receives", error),
    ("a bad receive fails one queue pair", bad_receive),
    ("a receive that ends behind its region", past_the_region),
    ("the queue's own protection domain", domain),
    ("datagrams", datagrams),
]

if __name__ == "__main__":
    main(CASES)
