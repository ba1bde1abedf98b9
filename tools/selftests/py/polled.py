# SPDX-License-Identifier: GPL-2.0
"""The device goes under a process that only polls, and looks at no event: each request that it
posted completes, once; a later post fails.

Without arguments it makes a round for each line on its standard input, with the indices of the two
hosts' GIDs: it has traffic, and requests that wait, on both devices, says "busy", and when both
devices are gone and everything is complete "drained" (lib/rounds.sh).
"""

import sys
import time

import enums as e
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from oxetest import (
    DEV_A,
    DEV_B,
    QKEY,
    SLOW,
    End,
    Host,
    ah_to,
    connect,
    next_event,
    out,
    same,
    status,
    with_events,
)

RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
NAMES = {RC: "RC", UC: "UC", UD: "UD"}
DEPTH = 32
# A requester that lost its peer says so soon.
SOON = {"timeout": 10, "retry": 1}
# What a request may complete with when its peer's device goes first.
LOST = {"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"}


class Queue:
    """The requests that were posted to one queue and are not complete."""

    def __init__(self, name, post):
        self.name, self.post = name, post
        self.next, self.waiting, self.ends, self.refused = 0, set(), [], False

    def fill(self):
        """Posts until DEPTH requests wait, or one is refused, which must not complete."""
        while len(self.waiting) < DEPTH and not self.refused:
            try:
                self.post(self.next)
            except (PyverbsError, OSError):
                self.refused = True
            else:
                self.waiting.add(self.next)
            self.next += 1

    def take(self, wc):
        """A completion is that of a request that waits."""
        if wc.wr_id not in self.waiting:
            raise AssertionError(f"{self.name}: request {wc.wr_id} ({status(wc)}) was not waiting")
        self.waiting.remove(wc.wr_id)
        self.ends.append(status(wc))


class Polled:
    """A queue pair with its queues. With busy it has traffic; else its receives get no message, and
    its requests wait in the state SQD. Receives are those of an SRQ with shared."""

    def __init__(self, host, qp_type, busy, shared=False):
        self.busy = busy
        srq = SRQ(host.pd, SrqInitAttr(SrqAttr(2 * DEPTH, 1))) if shared else None
        self.end = End(host, qp_type, depth=DEPTH, size=4096, cqe=4 * DEPTH, srq=srq)
        self.peer, self.ah = None, None
        place = f"{host.name} {NAMES[qp_type]}{' busy' if busy else ''}{' SRQ' if shared else ''}"
        self.sends = Queue(f"{place} send", self.send)
        self.recvs = Queue(f"{place} receive", self.recv)

    def send(self, wr_id):
        end = self.end
        if end.type == UD:
            remote = (self.ah, self.peer.qp.qp_num, QKEY)
            end.send(e.IBV_WR_SEND, end.sge(500), wr_id=wr_id, ah=remote)
        elif end.type == RC and wr_id % 2:
            end.send(e.IBV_WR_RDMA_WRITE, end.sge(), wr_id=wr_id, remote=self.peer.remote())
        else:
            end.send(e.IBV_WR_SEND, end.sge(500), wr_id=wr_id)

    def recv(self, wr_id):
        self.end.recv(self.end.sge(1000), wr_id=wr_id)

    def begin(self, peer):
        self.peer = peer.end
        if self.end.type == UD:
            self.ah = ah_to(self.end.host, peer.end.host)
        self.recvs.fill()
        if not self.busy:
            self.end.to_state(e.IBV_QPS_SQD)
            self.sends.fill()

    def poll(self):
        """Polls both CQs, and posts others in the place of what is complete."""
        for cq, queue in ((self.end.cq, self.sends), (self.end.rcq, self.recvs)):
            for wc in cq.poll(DEPTH)[1]:
                queue.take(wc)
        # Those that wait are posted to again once they were flushed.
        if self.busy or len(self.recvs.waiting) < DEPTH:
            self.recvs.fill()
        if self.busy or len(self.sends.waiting) < DEPTH:
            self.sends.fill()

    def queues(self):
        return [self.sends, self.recvs]


def pairs(host, peer):
    """Queue pairs of each service, with traffic and without, on the wire and on one device."""
    made = []
    for qp_type in (RC, UC, UD):
        for other, busy, shared in (
            (peer, True, False),
            (peer, False, True),
            (host, qp_type != RC, True),
        ):
            a, b = Polled(host, qp_type, busy, shared), Polled(other, qp_type, busy)
            connect(a.end, b.end, **(SOON if qp_type == RC else {}))
            a.begin(b)
            b.begin(a)
            made += [a, b]
    return made


def drained(ends):
    return all(q.refused and not q.waiting for end in ends for q in end.queues())


def judge(ends):
    """What waited was flushed, and all else failed in no other way than the removal explains."""
    for end in ends:
        for queue in end.queues():
            bad = [text for text in queue.ends if text != "SUCCESS"]
            same(set(bad) - LOST - {"WR_FLUSH_ERR"}, set(), f"{queue.name}: the errors")
            if not end.busy:
                same(set(queue.ends[:DEPTH]), {"WR_FLUSH_ERR"}, f"{queue.name}: what waited")


def one_round(gids):
    hosts = [
        with_events(lambda: Host(DEV_A, gids[0])),
        with_events(lambda: Host(DEV_B, gids[1])),
    ]
    ends = pairs(hosts[0][0], hosts[1][0])
    busy = [end for end in ends if end.busy]
    until = time.monotonic() + 60 * SLOW
    while not all("SUCCESS" in end.sends.ends for end in busy) and time.monotonic() < until:
        for end in busy:
            end.poll()
    out("busy")
    until = time.monotonic() + 60 * SLOW
    while not drained(ends):
        for end in ends:
            end.poll()
        if time.monotonic() > until:
            left = [
                f"{q.name}: {len(q.waiting)} wait{'' if q.refused else ', posts succeed'}"
                for end in ends
                for q in end.queues()
                if q.waiting or not q.refused
            ]
            raise AssertionError("; ".join(left))
    judge(ends)
    for host, events in hosts:
        seen = []
        while e.IBV_EVENT_DEVICE_FATAL not in seen:
            seen.append(next_event(host, events))
            same(seen[-1] is not None, True, f"DEVICE_FATAL among the events {seen}")
        host.close()
    total = sum(len(q.ends) for end in ends for q in end.queues())
    flushed = sum(q.ends.count("WR_FLUSH_ERR") for end in ends for q in end.queues())
    print(f"{total} requests, {flushed} of them flushed", file=sys.stderr, flush=True)
    out("drained")


if __name__ == "__main__":
    for line in sys.stdin:
        one_round([int(gid) for gid in line.split()])
