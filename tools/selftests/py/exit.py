# SPDX-License-Identifier: GPL-2.0
"""A process with very many objects is killed: how many instructions its end takes, on a clock that
counts them."""

import os
import re
import signal
import time

from pyverbs.cq import CQ

from oxetest import SLOW, Skip, host_a, main, out, same

COUNT = 50_000 // SLOW
LIMIT = 2.0  # seconds of the deterministic machine: 2e9 instructions


def holder(ready):
    """Makes the queues, says so, and holds them until it is killed."""
    host = host_a()
    queues = [CQ(host.ctx, 1) for _ in range(COUNT)]
    os.write(ready, str(len(queues)).encode())
    signal.pause()


def queues():
    """How many completion queues there are, as the RDMA core counts them. (To list them takes it
    quadratic time.)"""
    with os.popen("rdma resource show") as file:
        return sum(int(number) for number in re.findall(r"\bcq (\d+)", file.read()))


def many_queues():
    """The list of mappings: each queue's is taken out of it when the process ends, one by one."""
    before = queues()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            holder(write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    said = os.read(read_end, 100)
    same((said, queues() - before), (str(COUNT).encode(), COUNT), "queues made")
    start = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    took = time.monotonic() - start
    same(queues() - before, 0, "queues that are left")
    out(f"# {COUNT} completion queues: {took:.2f} s")
    if os.environ.get("OXE_KERNEL", "stock") != "stock" or os.cpu_count() != 1:
        raise Skip(
            "the clock counts instructions on the stock kernel in the deterministic machine alone"
        )
    same(took < LIMIT, True, f"killed in less than {LIMIT} s ({took:.2f} s)")


CASES = [("a process with 50,000 completion queues is killed in two seconds", many_queues)]

if __name__ == "__main__":
    main(CASES)
