# SPDX-License-Identifier: GPL-2.0
"""Processes are killed one after another while RC, UC and UD messages are under way, on the wire
and on one device: each is gone within a second. KILLS=N kills so many.

One in three is killed while it still makes its objects.
"""

import os
import random
import signal
import time

import enums as e
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from oxetest import QKEY, End, Skip, ah_to, connect, host_a, host_b, main, out, same

KILLS = int(os.environ.get("KILLS", "60"))
LIMIT = 1.0  # seconds of the deterministic machine: 1e9 instructions
SIZE = 200_000
RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD


def pairs():
    """(sender, receiver, address handle of UD): the wire, and one device. An SRQ feeds one."""
    a, b = host_a(), host_b()
    srq = SRQ(b.pd, SrqInitAttr(SrqAttr(64, 1)))
    made = []
    for qp_type, peer, shared in (
        (RC, b, srq),
        (RC, b, None),
        (UC, b, None),
        (UD, b, None),
        (RC, a, None),
    ):
        one, two = End(a, qp_type, size=SIZE), End(peer, qp_type, size=SIZE, srq=shared)
        connect(one, two)
        made.append((one, two, ah_to(a, b) if qp_type == UD else None))
    return made


def send(one, two, ah):
    """A message, a WRITE and, of RC, a READ, if the queue has room."""
    try:
        two.recv(two.sge(2000))
        if ah:
            one.send(e.IBV_WR_SEND, one.sge(1000), ah=(ah, two.qp.qp_num, QKEY))
            return
        one.send(e.IBV_WR_SEND, one.sge(2000))
        one.send(e.IBV_WR_RDMA_WRITE, one.sge(), remote=two.remote())
        if one.type == RC:
            one.send(e.IBV_WR_RDMA_READ, one.sge(), remote=two.remote())
    except PyverbsError:
        pass


def busy(ready):
    """The victim: sends for ever, and says when it has begun."""
    os.write(ready, b"s")
    made = pairs()
    for turn in range(1 << 62):
        for one, two, ah in made:
            send(one, two, ah)
            one.cq.poll(64)
            two.rcq.poll(64)
        if turn == 2:
            os.write(ready, b"b")


def kill_one(chance):
    """Seconds that one victim's end takes."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            busy(write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    words = b"s" if chance.randrange(3) == 0 else b"sb"
    for word in words:
        same(os.read(read_end, 1), bytes([word]), "the word of the process")
    time.sleep(chance.random() * 0.05)
    start = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    took = time.monotonic() - start
    os.close(read_end)
    same(os.waitstatus_to_exitcode(status), -signal.SIGKILL, "the process's status")
    return took


def killed():
    chance = random.Random(1)
    took = max(kill_one(chance) for _ in range(KILLS))
    out(f"# {KILLS} processes: {took:.3f} s at most")
    if os.environ.get("OXE_KERNEL", "stock") != "stock" or os.cpu_count() != 1:
        raise Skip(
            "the clock counts instructions on the stock kernel in the deterministic machine alone"
        )
    same(took < LIMIT, True, f"killed in less than {LIMIT} s ({took:.3f} s)")


CASES = [(f"{KILLS} processes are killed under traffic, each within a second", killed)]

if __name__ == "__main__":
    main(CASES)
