# SPDX-License-Identifier: GPL-2.0
"""Work that must fail, the status it must fail with, and what becomes of the work behind it."""

import ctypes
import errno
import time

import enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD

from oxetest import (
    ALL_ACCESS,
    LOCAL,
    SIG,
    End,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    next_event,
    none_pending,
    pair,
    poll,
    same,
    shut,
    status,
    until,
    with_events,
)

REMOTE_WRITE, REMOTE_READ = e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_READ


def first_fails(a, want, cq=None, count=3):
    """Of the requests numbered from 1 the first ends with the status wanted, the rest flush in
    order; the QP is in error."""
    wcs = poll(cq or a.cq, count)
    if isinstance(want, str):
        want = (want,)
    if status(wcs[0]) not in want:
        raise AssertionError(f"status {status(wcs[0])}, expected {want}")
    same(
        [(wc.wr_id, status(wc)) for wc in wcs[1:]],
        [(i, "WR_FLUSH_ERR") for i in range(2, count + 1)],
        "what follows",
    )
    same(wcs[0].wr_id, 1, "the failing request")
    same(a.state(), e.IBV_QPS_ERR, "state of the queue pair")
    none_pending(cq or a.cq)


def behind(a, b):
    """Two more requests behind the one that fails."""
    for i in (2, 3):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(100), wr_id=i, remote=b.remote())


# ---------------------------------------------------------------- the local side


def bad_lkey():
    a, b = pair()
    a.send(e.IBV_WR_SEND, a.sge(100, lkey=a.mr.lkey ^ 0x5A5A00), wr_id=1)
    behind(a, b)
    first_fails(a, "LOC_PROT_ERR")
    shut(a, b)


def past_the_region():
    a, b = pair()
    a.send(e.IBV_WR_SEND, a.sge(200, a.mr.length - 100), wr_id=1)
    behind(a, b)
    first_fails(a, "LOC_PROT_ERR")
    shut(a, b)


def other_pd():
    a, b = pair()
    other = MR(PD(a.host.ctx), 4096, ALL_ACCESS)
    a.send(e.IBV_WR_SEND, a.sge(100, lkey=other.lkey), wr_id=1)
    behind(a, b)
    first_fails(a, "LOC_PROT_ERR")
    shut(a, b)


def read_into_readonly():
    """A read's sink must be writable."""
    a, b = pair()
    sink = MR(a.host.pd, 4096, 0)
    before = ctypes.string_at(sink.buf, 100)
    a.mr, kept = sink, a.mr
    a.send(e.IBV_WR_RDMA_READ, a.sge(100), wr_id=1, remote=b.remote())
    a.mr = kept
    behind(a, b)
    first_fails(a, "LOC_PROT_ERR")
    same(ctypes.string_at(sink.buf, 100), before, "the region that must not be written")
    shut(a, b)


def receive_bad_lkey():
    a, b = pair()
    b.recv(b.sge(100, lkey=b.mr.lkey ^ 0x5A5A00), wr_id=1)
    b.recv(b.sge(100), wr_id=2)
    a.send(e.IBV_WR_SEND, a.sge(100), wr_id=1)
    behind(a, b)
    first_fails(a, "REM_OP_ERR")
    first_fails(b, "LOC_PROT_ERR", b.rcq, 2)
    shut(a, b)


def receive_too_short():
    a, b = pair()
    before = ctypes.string_at(b.mr.buf + 100, 4000)
    b.recv(b.sge(100), wr_id=1)
    b.recv(b.sge(100), wr_id=2)
    a.send(e.IBV_WR_SEND, a.sge(3000), wr_id=1)
    behind(a, b)
    first_fails(a, "REM_INV_REQ_ERR")
    first_fails(b, "LOC_LEN_ERR", b.rcq, 2)
    same(ctypes.string_at(b.mr.buf + 100, 4000), before, "bytes behind the buffer")
    shut(a, b)


# ---------------------------------------------------------------- the remote side


def remote(want, post, **kw):
    """The request that post makes is refused by the responder, whose memory stays as it was."""
    a, b = pair(**kw)
    before = ctypes.string_at(b.mr.buf, b.mr.length)
    post(a, b)
    behind(a, b)
    first_fails(a, want)
    same(
        ctypes.string_at(b.mr.buf, b.mr.length) == before,
        True,
        "the responder's memory is untouched",
    )
    shut(a, b)


def write(a, b, length=100, offset=0, rkey=None):
    a.send(
        e.IBV_WR_RDMA_WRITE,
        a.sge(length),
        wr_id=1,
        remote=(b.mr.buf + offset, b.mr.rkey if rkey is None else rkey),
    )


def read(a, b, length=100, offset=0, rkey=None):
    a.send(
        e.IBV_WR_RDMA_READ,
        a.sge(length),
        wr_id=1,
        remote=(b.mr.buf + offset, b.mr.rkey if rkey is None else rkey),
    )


def add(a, b, offset=0, rkey=None):
    a.send(
        e.IBV_WR_ATOMIC_FETCH_AND_ADD,
        a.sge(8),
        wr_id=1,
        remote=(b.mr.buf + offset, b.mr.rkey if rkey is None else rkey),
        atomic=(1, 0),
    )


def unaligned_atomic():
    """librxe refuses it before the driver sees it."""
    a, b = pair()
    same(errno_of(add, a, b, 4), errno.EINVAL, "an atomic at an address that is no multiple of 8")
    shut(a, b)


def key_of_another_pd(operation):
    a, b = pair()
    other = MR(PD(b.host.ctx), 4096, ALL_ACCESS)
    before = ctypes.string_at(other.buf, 4096)
    a.send(operation, a.sge(100), wr_id=1, remote=(other.buf, other.rkey))
    behind(a, b)
    first_fails(a, "REM_ACCESS_ERR")
    same(ctypes.string_at(other.buf, 4096) == before, True, "memory of the other domain")
    shut(a, b)


def write_with_immediate():
    """Refused for its key, it fails the receive that it takes: the program behind the responder
    learns of it. One of several packets is refused before it tells that it has immediate data;
    without packets, on one device, it tells at once."""
    for length in (64, 3000):
        a, b = pair()
        for i in (1, 2):
            b.recv(b.sge(100), wr_id=i)
        bad = (b.mr.buf, b.mr.rkey ^ 0x5A5A00)
        a.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, a.sge(length), wr_id=1, remote=bad, imm=7)
        behind(a, b)
        first_fails(a, "REM_ACCESS_ERR")
        want = ("LOC_ACCESS_ERR",) if length == 64 else ("LOC_ACCESS_ERR", "WR_FLUSH_ERR")
        first_fails(b, want, b.rcq, 2)
        shut(a, b)


def no_permission(operation, access):
    """The queue pair allows everything, the region does not."""
    a, b = pair()
    guarded = MR(b.host.pd, 4096, access)
    before = ctypes.string_at(guarded.buf, 4096)
    a.send(operation, a.sge(100), wr_id=1, remote=(guarded.buf, guarded.rkey))
    behind(a, b)
    first_fails(a, "REM_ACCESS_ERR")
    same(ctypes.string_at(guarded.buf, 4096) == before, True, "the region's memory")
    shut(a, b)


def deregistered():
    a, b = pair()
    gone = MR(b.host.pd, 4096, ALL_ACCESS)
    rkey, address = gone.rkey, gone.buf
    gone.close()
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(100), wr_id=1, remote=(address, rkey))
    behind(a, b)
    first_fails(a, "REM_ACCESS_ERR")
    shut(a, b)


def qp_forbids(operation):
    """The queue pair's own access flags forbid what the region's allow."""
    a, b = End(host_a()), End(host_b())
    b.access = LOCAL
    connect(a, b)
    a.send(operation, a.sge(100), wr_id=1, remote=b.remote())
    behind(a, b)
    first_fails(a, ("REM_ACCESS_ERR", "REM_INV_REQ_ERR"))
    shut(a, b)


def no_reads_accepted():
    a, b = pair(rd_dest=0)
    read(a, b)
    behind(a, b)
    first_fails(a, "REM_INV_REQ_ERR")
    shut(a, b)


def send_invalidate_nothing():
    """SEND with invalidate of a key that no window has."""
    from pyverbs.wr import SendWR

    a, b = pair()
    b.recv(b.sge(1000), wr_id=1)
    wr = SendWR(1, opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[a.sge(100)], send_flags=SIG)
    wr.imm_data = b.mr.rkey ^ 0x5A5A00  # the same word as invalidate_rkey
    a.qp.post_send(wr)
    behind(a, b)
    first_fails(a, ("REM_ACCESS_ERR", "REM_OP_ERR", "REM_INV_REQ_ERR"))
    shut(a, b)


# ---------------------------------------------------------------- retries


def receiver_not_ready():
    a, b = pair(rnr=2, min_rnr=5)
    a.send(e.IBV_WR_SEND, a.sge(100), wr_id=1)
    behind(a, b)
    first_fails(a, "RNR_RETRY_EXC_ERR")
    shut(a, b)


def receiver_ready_later():
    """rnr_retry 7 never gives up."""
    a, b = pair(rnr=7, min_rnr=1)
    a.send(e.IBV_WR_SEND, a.sge(100), wr_id=1)
    none_pending(a.cq, 1)
    b.recv(b.sge(100), wr_id=9)
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def peer_gone():
    a, b = pair(timeout=8, retry=2)
    b.qp.close()
    a.send(e.IBV_WR_SEND, a.sge(100), wr_id=1)
    behind(a, End(b.host))
    first_fails(a, "RETRY_EXC_ERR")
    shut(a, b)


def peer_in_error():
    a, b = pair(timeout=8, retry=2)
    b.to_state(e.IBV_QPS_ERR)
    write(a, b)
    behind(a, b)
    first_fails(a, "RETRY_EXC_ERR")
    shut(a, b)


# ---------------------------------------------------------------- flushing, states


def flush_order():
    a, b = pair(rnr=7, min_rnr=1)
    for i in range(1, 31):
        a.recv(a.sge(10), wr_id=100 + i)
        a.send(e.IBV_WR_SEND, a.sge(10), wr_id=i)  # the peer has no buffer: all wait
    a.to_state(e.IBV_QPS_ERR)
    wcs = poll(a.cq, 30)
    same([wc.wr_id for wc in wcs], list(range(1, 31)), "flushed sends")
    same({status(wc) for wc in wcs}, {"WR_FLUSH_ERR"}, "their status")
    wcs = poll(a.rcq, 30)
    same(
        [(wc.wr_id, status(wc)) for wc in wcs],
        [(100 + i, "WR_FLUSH_ERR") for i in range(1, 31)],
        "flushed receives",
    )
    a.send(e.IBV_WR_SEND, a.sge(10), wr_id=77)
    (wc,) = poll(a.cq)
    same((wc.wr_id, status(wc)), (77, "WR_FLUSH_ERR"), "a send posted in the error state")
    none_pending(a.cq)
    none_pending(a.rcq)
    shut(a, b)


def receives_in_error():
    """A receive posted in the error state flushes too, though posting a receive has no doorbell."""
    for kind in (e.IBV_QPT_RC, e.IBV_QPT_UD):
        a = End(host_a(), kind)
        a.to_init()
        a.to_state(e.IBV_QPS_ERR)
        for i, pause in enumerate((0, 0.1, 0.5)):
            time.sleep(pause)
            a.recv(a.sge(10), wr_id=i)
            (wc,) = poll(a.rcq)
            same((wc.wr_id, status(wc)), (i, "WR_FLUSH_ERR"), f"receive {i}")
        shut(a)


def reset_and_again():
    """A queue pair that failed works again after RESET, and nothing of its former life comes up."""
    a, b = pair(rnr=7, min_rnr=1)
    a.recv(a.sge(10), wr_id=5)
    a.send(e.IBV_WR_SEND, a.sge(10), wr_id=6)
    for end in (a, b):
        end.to_state(e.IBV_QPS_ERR)
    poll(a.cq)
    poll(a.rcq)
    for end in (a, b):
        end.to_state(e.IBV_QPS_RESET)
        same(end.state(), e.IBV_QPS_RESET, "state")
    connect(a, b)
    b.recv(b.sge(50), wr_id=8)
    a.send(e.IBV_WR_SEND, a.sge(50), wr_id=7)
    same((good(poll(a.cq))[0].wr_id, good(poll(b.rcq))[0].wr_id), (7, 8), "completions after RESET")
    none_pending(a.cq)
    none_pending(a.rcq)
    shut(a, b)


def completions_before_reset():
    """Completions that were not polled before RESET are there afterwards, once and in front of
    new ones: only the process may take them out of the CQ's ring."""
    a, b = pair()
    for i in range(3):
        b.recv(b.sge(8), wr_id=i)
        a.send(e.IBV_WR_SEND, a.sge(8), wr_id=i)
    # This one waits for the others.
    a.send(e.IBV_WR_RDMA_READ, a.sge(8), wr_id=3, remote=b.remote())
    a.to_state(e.IBV_QPS_SQD)
    until(lambda: a.qp.query(e.IBV_QP_STATE)[0].sq_draining == 0, "requests that are done")
    for end in (a, b):
        end.to_state(e.IBV_QPS_RESET)
    connect(a, b)
    b.recv(b.sge(8), wr_id=10)
    a.send(e.IBV_WR_SEND, a.sge(8), wr_id=10)
    same([wc.wr_id for wc in good(poll(a.cq, 5))], [0, 1, 2, 3, 10], "requests")
    same([wc.wr_id for wc in good(poll(b.rcq, 4))], [0, 1, 2, 10], "receives")
    none_pending(a.cq)
    none_pending(b.rcq)
    shut(a, b)


# ---------------------------------------------------------------- completion queues


def cq_overflow():
    """A CQ that is never polled overflows: it reports that by an event and hands out no more than
    it holds."""
    host, events = with_events(host_a)
    small = CQ(host.ctx, 4)
    capacity = small.cqe
    a, b = End(host, depth=capacity + 40, send_cq=small), End(host_b())
    connect(a, b)
    for i in range(capacity + 20):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), wr_id=i, remote=b.remote())
    seen = []
    while e.IBV_EVENT_CQ_ERR not in seen:
        seen.append(next_event(host, events))
        same(seen[-1] is not None, True, f"a CQ error among the events {seen}")
    count = 0
    while True:
        n, wcs = small.poll(16)
        if not n:
            break
        same([wc.wr_id for wc in wcs], list(range(count, count + n)), "completions in order")
        count += n
    same(count <= capacity + 1, True, f"no more completions than places ({count} of {capacity})")
    shut(a, b)


def full_cq():
    """A CQ that is full of completions that were not polled, and has no room for the requests that
    wait, as they are not signaled: the first of their errors is there all the same."""
    host, events = with_events(host_a)
    cq = CQ(host.ctx, 6)
    a, b = End(host, send_cq=cq, sig_all=False), End(host_b())
    connect(a, b)
    for i in range(cq.cqe):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), wr_id=i, remote=b.remote())
    a.to_state(e.IBV_QPS_SQD)
    same(next_event(host, events), e.IBV_EVENT_SQ_DRAINED, "the event of requests that are done")
    for i in range(8):
        a.send(e.IBV_WR_SEND, a.sge(8), wr_id=100 + i, flags=0)
    a.to_state(e.IBV_QPS_ERR)
    found = [(wc.wr_id, status(wc)) for wc in poll(cq, cq.cqe + 1)]
    want = [(i, "SUCCESS") for i in range(cq.cqe)] + [(100, "WR_FLUSH_ERR")]
    same(found, want, "the completions")
    shut(a, b)


WRITE, READ, ADD = e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ, e.IBV_WR_ATOMIC_FETCH_AND_ADD
BEYOND = 65536 - 50
CASES = [
    ("send from an unknown lkey", bad_lkey),
    ("send from past the region", past_the_region),
    ("send from another PD's region", other_pd),
    ("read into a region without local write", read_into_readonly),
    ("receive into an unknown lkey", receive_bad_lkey),
    ("receive buffer too short", receive_too_short),
    (
        "write with an unknown rkey",
        remote,
        "REM_ACCESS_ERR",
        lambda a, b: write(a, b, rkey=b.mr.rkey ^ 0x5A5A00),
    ),
    ("write past the region", remote, "REM_ACCESS_ERR", lambda a, b: write(a, b, offset=BEYOND)),
    ("write before the region", remote, "REM_ACCESS_ERR", lambda a, b: write(a, b, offset=-1)),
    (
        "long write of which the end is past the region",
        remote,
        "REM_ACCESS_ERR",
        lambda a, b: write(a, b, 30000, 65536 - 29999),
    ),
    (
        "read with an unknown rkey",
        remote,
        "REM_ACCESS_ERR",
        lambda a, b: read(a, b, rkey=b.mr.rkey ^ 0x5A5A00),
    ),
    ("read past the region", remote, "REM_ACCESS_ERR", lambda a, b: read(a, b, offset=BEYOND)),
    (
        "atomic with an unknown rkey",
        remote,
        "REM_ACCESS_ERR",
        lambda a, b: add(a, b, rkey=b.mr.rkey ^ 0x5A5A00),
    ),
    ("atomic past the region", remote, "REM_ACCESS_ERR", lambda a, b: add(a, b, offset=65536)),
    ("atomic not aligned", unaligned_atomic),
    ("write to a region without remote write", no_permission, WRITE, LOCAL | REMOTE_READ),
    ("read from a region without remote read", no_permission, READ, LOCAL | REMOTE_WRITE),
    ("write with immediate data and an unknown rkey", write_with_immediate),
    ("write with another PD's rkey", key_of_another_pd, WRITE),
    ("read with another PD's rkey", key_of_another_pd, READ),
    ("write with the rkey of a region that is gone", deregistered),
    ("write to a queue pair that forbids it", qp_forbids, WRITE),
    ("read from a queue pair that forbids it", qp_forbids, READ),
    ("read where none are accepted", no_reads_accepted),
    ("send with invalidate of an unknown key", send_invalidate_nothing),
    ("receiver not ready, retries exceeded", receiver_not_ready),
    ("receiver ready at last", receiver_ready_later),
    ("peer gone, retries exceeded", peer_gone),
    ("peer in the error state, retries exceeded", peer_in_error),
    ("flush in order", flush_order),
    ("receives posted in the error state", receives_in_error),
    ("reset and again", reset_and_again),
    ("completions that were there before RESET", completions_before_reset),
    ("CQ overflow", cq_overflow),
    ("a full CQ keeps a place for the first error", full_cq),
]

if __name__ == "__main__":
    main(CASES)
