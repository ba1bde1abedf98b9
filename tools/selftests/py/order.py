# SPDX-License-Identifier: GPL-2.0
"""The order of completions over loopback (F1): the completion of a request is in its CQ before
anything that the peer sends once it has received the message.

Each case plays ping-pong and counts inversions: replies that were polled before the completion of
the SEND that they answer.
"""

import os
import time

import enums as e
from pyverbs.cq import CQ
from pyverbs.wr import RecvWR, SendWR

from oxetest import SLOW, End, connect, host_a, main, same, shut

# Each is enough to see a rare inversion; many were nearly all of them before.
COUNT = 4000 if os.environ.get("SHORT") else 20000
SEND, RECV = 1, 2


class Player:
    """An end with one CQ for both halves, and the same two requests again and again."""

    def __init__(self, cq, host, qp_type, size, flags=e.IBV_SEND_SIGNALED):
        self.end = End(host, qp_type, size=1 << 17, depth=64, send_cq=cq, recv_cq=cq, sig_all=False)
        self.sges = [self.end.sge(size, 0), self.end.sge(size, 1 << 16)]
        self.wr = RecvWR(RECV, 1, self.sges[1:])
        self.flags = flags

    def recv(self, wr_id=RECV):
        self.end.qp.post_recv(RecvWR(wr_id, 1, self.sges[1:]))

    def send(self, wr_id=SEND):
        self.end.qp.post_send(
            SendWR(wr_id, e.IBV_WR_SEND, num_sge=1, sg=self.sges[:1], send_flags=self.flags)
        )


def next_wc(cq, until):
    while True:
        n, wcs = cq.poll(1)
        if n:
            same(wcs[0].status, e.IBV_WC_SUCCESS, "status")
            return wcs[0].wr_id
        if time.monotonic() > until:
            raise AssertionError("no completion comes")


def one_cq(qp_type, size, count=COUNT):
    """Both ends in one thread, with one CQ for all."""
    host = host_a()
    cq = CQ(host.ctx, 256)
    a, b = (Player(cq, host, qp_type, size) for _ in range(2))
    connect(a.end, b.end)
    until = time.monotonic() + 300 * SLOW
    inversions = 0
    for _ in range(count):
        a.recv(0)
        b.recv(1)
        a.send(2)
        sent = False
        for _ in range(4):
            wr_id = next_wc(cq, until)
            if wr_id == 1:
                b.send(3)
            elif wr_id == 2:
                sent = True
            elif wr_id == 0:
                inversions += not sent
    shut(a.end)
    return inversions


def two_processes(qp_type, size, count=COUNT):
    """Each end has a process of its own, so that they run at the same time."""
    to_a, to_b = os.pipe(), os.pipe()

    def play(mine, peers, first):
        host = host_a()
        cq = CQ(host.ctx, 256)
        player = Player(cq, host, qp_type, size)
        os.write(peers[1], player.end.qp.qp_num.to_bytes(4, "little"))
        qpn = int.from_bytes(os.read(mine[0], 4), "little")
        player.end.to_init()
        player.end.to_rtr(host.gid_value(), qpn, psn=7)
        player.end.to_rts(psn=7)
        for _ in range(4):
            player.recv()
        os.write(peers[1], b"r")
        os.read(mine[0], 1)
        until = time.monotonic() + 300 * SLOW
        inversions = 0
        # The number of sends that are not complete yet.
        open_sends = 0
        for n in range(count):
            if first or n:
                player.send()
                open_sends += 1
            while next_wc(cq, until) == SEND:
                open_sends -= 1
            inversions += open_sends > 0
            player.recv()
        if not first:
            player.send()
        os.write(peers[1], b"e")
        os.read(mine[0], 1)
        shut(player.end)
        return inversions

    pid = os.fork()
    if not pid:
        code = 1
        try:
            found = play(to_b, to_a, False)
            os.write(to_a[1], found.to_bytes(4, "little"))
            code = 0
        except BaseException as error:
            print(f"# the other process: {error!r}", flush=True)
        os._exit(code)
    inversions = play(to_a, to_b, True)
    inversions += int.from_bytes(os.read(to_a[0], 4), "little")
    same(os.waitpid(pid, 0)[1], 0, "the other process")
    return inversions


def none(function, qp_type, size, count=COUNT):
    found = function(qp_type, size, count)
    same(found, 0, f"inversions of {count}")


RC, UC = e.IBV_QPT_RC, e.IBV_QPT_UC
CASES = [
    ("order of completions, RC, one CQ", none, one_cq, RC, 64),
    ("order of completions, RC, two processes", none, two_processes, RC, 64),
    ("order of completions, RC, 60,000 bytes", none, one_cq, RC, 60000, COUNT // 4),
    ("order of completions, UC, one CQ", none, one_cq, UC, 64, COUNT // 4),
    ("order of completions, UC, two processes", none, two_processes, UC, 64, COUNT // 4),
]

if __name__ == "__main__":
    main(CASES)
