# SPDX-License-Identifier: GPL-2.0
"""Four connections through one queue, host B's: two write to A, two are read by A."""

import sys

import enums as e

from dcqcn import LONG, Counted, ecn_fields, fill
from ecn import V4, ends
from oxetest import SLOW, good, main, poll, same, shut

COUNT = 20


def queue():
    pairs = [ends(V4) for _ in range(4)]
    data = [fill(b, n) for n, (_, b) in enumerate(pairs)]
    with Counted() as counted:
        for n, (a, b) in enumerate(pairs):
            for _ in range(COUNT):
                if n % 2:
                    a.send(e.IBV_WR_RDMA_READ, a.sge(LONG), remote=b.remote())
                else:
                    b.send(e.IBV_WR_RDMA_WRITE, b.sge(LONG), remote=a.remote())
        for n, (a, b) in enumerate(pairs):
            good(poll(a.cq if n % 2 else b.cq, COUNT, seconds=240 * SLOW))
        same(counted.rise("rp_cnp_handled"), 0, "CNPs handled")
    for (a, b), sent in zip(pairs, data):
        same(a.mr.read(LONG, 0) == sent[:LONG], True, "the data")
        shut(a, b)


CASES = [
    ("packets are not ECN-capable", ecn_fields, V4, False),
    ("four connections share a queue", queue),
]

if __name__ == "__main__":
    which = sys.argv[1]
    sys.argv[1:] = []
    main([(f"{which}: {name}", *rest) for name, *rest in CASES])
