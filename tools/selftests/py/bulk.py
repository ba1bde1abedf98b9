# SPDX-License-Identifier: GPL-2.0
"""Bulk work of a process that does not run (F3): softirqs must not do it, which are
charged to no process and go before all of them, but a worker that the scheduler preempts."""

import glob
import os
import re
import signal
import subprocess
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.wr import SGE, SendWR

from mapping import repeated
from oxetest import ALL_ACCESS, SLOW, End, connect, host_a, main, same

LEN = 1 << 30
FILE = 2 << 20
SECONDS = 3


def writer(pairs, count):
    """Has so many WRITEs of LEN bytes queued from one queue pair to another of the same device, and
    that for so many pairs, then waits."""
    host = host_a()
    cq = CQ(host.ctx, 16)
    source, sink = (MR(host.pd, LEN, ALL_ACCESS, repeated(LEN, FILE)) for _ in range(2))
    ends = []
    for _ in range(pairs):
        a, b = (End(host, size=0, depth=count, sges=1, send_cq=cq, recv_cq=cq) for _ in range(2))
        connect(a, b)
        ends.append((a, b))
    for a, _ in ends:
        for n in range(count):
            sges = [SGE(source.buf, LEN, source.lkey)]
            wr = SendWR(n, e.IBV_WR_RDMA_WRITE, num_sge=1, sg=sges)
            wr.set_wr_rdma(sink.rkey, sink.buf)
            a.qp.post_send(wr)
    print("ready", flush=True)
    signal.pause()


def ticks_of(path):
    """The ticks that a task has run; none if it is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def load():
    """The ticks of unbound workers, and those in softirqs."""
    workers = softirqs = 0
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                name = file.read()
        except OSError:
            continue
        if name.startswith("kworker/u"):
            workers += ticks_of(path[: -len("comm")] + "stat")
        if name.startswith("ksoftirqd"):
            softirqs += ticks_of(path[: -len("comm")] + "stat")
    with open("/proc/stat", encoding="ascii") as file:
        cpu = file.readline().split()
    return workers, softirqs + int(cpu[7])


def ping():
    """The 99th percentile of the round trips between the hosts, in microseconds."""
    command = ["ip", "netns", "exec", "oxt-a", "ping", "-n", "-i", "0.005", "-c", "100"]
    text = subprocess.run(
        command + [os.environ["IP4_B"]], capture_output=True, text=True, check=False
    ).stdout
    times = sorted(float(t) * 1000 for t in re.findall(r"time=([0-9.]+) ms", text))
    same(len(times) > 60, True, f"round trips: {text[-300:]}")
    return times[len(times) * 99 // 100]


def stopped(pairs, count):
    """A process with so many WRITEs of 1 GiB queued is stopped; the copies go on in a worker."""
    idle = min(ping() for _ in range(3))
    command = [sys.executable, __file__, "writer", str(pairs), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            same(child.stdout.readline().strip(), "ready", "the process")
            child.send_signal(signal.SIGSTOP)
            before = load()
            time.sleep(SECONDS)
            workers, softirqs = (now - then for now, then in zip(load(), before))
            busy = min(ping() for _ in range(3))
            during = load()
            time.sleep(0.5)
            after = load()
        finally:
            child.kill()
    print(
        f"# ticks in workers: {workers}, in softirqs: {softirqs}; "
        f"ping, 99th percentile: {busy:.0f} us, idle {idle:.0f} us",
        flush=True,
    )
    same(sum(after) > sum(during), True, "the copies go on")
    same(workers > 2 * softirqs, True, f"{workers} ticks in workers, {softirqs} in softirqs")
    # The debug kernel's machine may be held up by others at any time; the other one has a clock
    # that counts its own instructions.
    spare = 0 if SLOW == 1 else 1000 * SLOW
    same(busy <= 2 * idle + spare, True, f"{busy:.0f} us against {idle:.0f} us")


CASES = [
    ("bulk work of a process that is stopped", stopped, 1, 64),
    ("bulk work of ten thousand queue pairs of a process that is stopped", stopped, 5000, 1),
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["writer"]:
        writer(*map(int, sys.argv[2:]))
    main(CASES)
