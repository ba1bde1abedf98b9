# SPDX-License-Identifier: GPL-2.0
"""A queue pair that enters the error state while it receives: each receive completes once, those
that messages came for first and in order, the others flushed; and each request of the peer once.
"""

import threading
import time

import enums as e
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from oxetest import SLOW, End, connect, host_a, host_b, main, none_pending, poll, same, status

ROUNDS = 200 // SLOW
DEPTH = 64


def judged(wcs, what):
    """How many succeeded: in the order posted, all of those before the first that did not."""
    same(sorted(wc.wr_id for wc in wcs), list(range(DEPTH)), f"each {what} once")
    kinds = [status(wc) for wc in wcs]
    good = kinds.count("SUCCESS")
    same(kinds[:good], ["SUCCESS"] * good, f"the order of {what}s")
    same([wc.wr_id for wc in wcs[:good]], list(range(good)), f"the order of {what}s")
    return good, kinds[good:]


def in_mid_receive(shared):
    moments = set()
    a_host, b_host = host_a(), host_b()
    for number in range(ROUNDS):
        srq = SRQ(a_host.pd, SrqInitAttr(SrqAttr(DEPTH, 1))) if shared else None
        a, b = End(a_host, srq=srq), End(b_host)
        connect(a, b, timeout=8, retry=1)
        for wr_id in range(DEPTH):
            a.recv(a.sge(700), wr_id=wr_id)

        def end(a=a, number=number):
            time.sleep(number % 20 * 0.0002)
            a.to_state(e.IBV_QPS_ERR)

        thread = threading.Thread(target=end)
        thread.start()
        for wr_id in range(DEPTH):
            b.send(e.IBV_WR_SEND, b.sge(700), wr_id=wr_id)
        thread.join()
        sent, failed = judged(poll(b.cq, DEPTH), "request")
        same(set(failed[1:]) <= {"WR_FLUSH_ERR"}, True, f"what follows the first failure {failed}")
        if shared:
            # What no message took stays in the shared queue.
            wcs = []
            while more := a.rcq.poll(DEPTH)[1]:
                wcs += more
            same(len({wc.wr_id for wc in wcs}), len(wcs), "receives that completed, each once")
            kinds = [status(wc) for wc in wcs]
            same(set(kinds) - {"SUCCESS", "WR_FLUSH_ERR"}, set(), "other statuses")
            received = kinds.count("SUCCESS")
        else:
            received, flushed = judged(poll(a.rcq, DEPTH), "receive")
            same(set(flushed) <= {"WR_FLUSH_ERR"}, True, f"the other receives: {set(flushed)}")
        none_pending(a.rcq, 0.01)
        none_pending(b.cq, 0.01)
        same(received >= sent, True, f"{sent} sent and {received} received")
        moments.add(received)
        for close in (a.close, b.close, *([srq.close] if srq else [])):
            close()
    same(len(moments) > 3, True, f"different moments: {sorted(moments)}")
    a_host.close()
    b_host.close()


CASES = [
    ("the error state in mid-receive, each receive completes once", in_mid_receive, False),
    ("the error state in mid-receive, receives of an SRQ", in_mid_receive, True),
]

if __name__ == "__main__":
    main(CASES)
