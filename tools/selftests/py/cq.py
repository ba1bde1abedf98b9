# SPDX-License-Identifier: GPL-2.0
"""Resizing completion queues: no completion is lost, doubled or out of order."""

import errno

import enums as e
from pyverbs.cq import CQ

from oxetest import (
    End,
    connect,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
)


def sender(cqe, depth=256):
    """A connection whose requests complete to a queue of that size."""
    host = host_a()
    cq = CQ(host.ctx, cqe)
    a, b = End(host, depth=depth, send_cq=cq), End(host_b())
    connect(a, b)
    return cq, a, b


def write(a, b, *wr_ids):
    for i in wr_ids:
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), wr_id=i, remote=b.remote())


def complete(a, b):
    """Waits until everything that was sent is complete, and looks at no completion for that."""
    other = CQ(a.host.ctx, 8)
    last = End(a.host, send_cq=other)
    peer = End(b.host)
    connect(last, peer)
    write(last, peer, 0)
    good(poll(other))


def numbers(cq, count):
    return [wc.wr_id for wc in good(poll(cq, count))]


def larger():
    """Completions that were not polled move along; the indices were in the middle of the ring."""
    cq, a, b = sender(31)
    write(a, b, *range(20))
    same(numbers(cq, 20), list(range(20)), "before")
    write(a, b, *range(20, 45))
    same(numbers(cq, 5), list(range(20, 25)), "the first ones")
    complete(a, b)
    cq.resize(200)
    same(cq.cqe >= 200, True, f"the size that is told ({cq.cqe})")
    write(a, b, *range(45, 200))
    same(numbers(cq, 175), list(range(25, 200)), "after")
    none_pending(cq)
    shut(a, b)


def smaller():
    """A size that the completions exceed is refused and harms nothing; one that fits is taken."""
    cq, a, b = sender(255)
    write(a, b, *range(100))
    complete(a, b)
    same(errno_of(cq.resize, 31), errno.EINVAL, "a size that the completions exceed")
    same(numbers(cq, 60), list(range(60)), "the first ones")
    cq.resize(63)
    same(numbers(cq, 40), list(range(60, 100)), "the others")
    for start in range(100, 400, 50):
        write(a, b, *range(start, start + 50))
        same(numbers(cq, 50), list(range(start, start + 50)), "in the small ring")
    none_pending(cq)
    shut(a, b)


def under_traffic():
    """Completions come while the ring is exchanged, again and again."""
    cq, a, b = sender(300)
    sizes = [300, 1000, 511, 65535, 256]
    for number in range(100):
        write(a, b, *range(number * 200, number * 200 + 200))
        cq.resize(sizes[number % len(sizes)])
        want = list(range(number * 200, number * 200 + 200))
        same(numbers(cq, 200), want, f"completions around resize {number}")
    none_pending(cq)
    shut(a, b)


def armed():
    """A queue that was armed before the resize reports the completion after it."""
    from pyverbs.cq import CompChannel

    host = host_a()
    channel = CompChannel(host.ctx)
    cq = CQ(host.ctx, 10, None, channel, 0)
    a, b = End(host, send_cq=cq), End(host_b())
    connect(a, b)
    cq.req_notify(False)
    cq.resize(100)
    write(a, b, 7)
    channel.get_cq_event(cq)
    cq.ack_events(1)
    same(numbers(cq, 1), [7], "the completion")
    shut(a, b)


def refused():
    host = host_a()
    most = host.ctx.query_device().max_cqe
    cq = CQ(host.ctx, 10)
    before = cq.cqe
    same(errno_of(cq.resize, most + 1), errno.EINVAL, "more than the device has")
    same(errno_of(cq.resize, 0), errno.EINVAL, "no completions at all")
    same(cq.cqe, before, "the size after that")
    host.close()


CASES = [
    ("a larger CQ", larger),
    ("a smaller CQ", smaller),
    ("resized under traffic", under_traffic),
    ("armed before a resize", armed),
    ("sizes out of range", refused),
]

if __name__ == "__main__":
    main(CASES)
