# SPDX-License-Identifier: GPL-2.0
"""Who works for a process that sends datagrams: the process itself, which is charged for it, and
nobody else; and not for what it posts without a doorbell.
"""

import os
import subprocess
import sys
import time

import enums as e

from events import Trace
from oxetest import (
    DEV_A,
    QKEY,
    SLOW,
    End,
    Skip,
    ah_to,
    connect,
    counters,
    host_a,
    host_b,
    main,
    same,
    shut,
)
from ring import CONSUMER, MASK, PRODUCER, Ring, mappings, ring_doorbell

CGROUP = "/sys/fs/cgroup"


class Sender:
    """A datagram queue pair on host A whose send ring is full of old requests, and can be posted
    again by a store."""

    def __init__(self, depth):
        before = set(mappings())
        self.host = host_a()
        self.a = End(self.host, e.IBV_QPT_UD, depth=depth, sges=1, inline=0, sig_all=False)
        rings = [Ring(start, size) for start, size in mappings().items() if start not in before]
        self.ring = max(rings, key=Ring.element)
        self.b = End(host_b(), e.IBV_QPT_UD)
        connect(self.a, self.b)
        self.ah = ah_to(self.host, self.b.host)
        self.count = self.ring.word(MASK).value
        for _ in range(self.count + 1):
            while self.room() == 0:
                time.sleep(0.01)
            self.a.send(
                e.IBV_WR_SEND, self.a.sge(64), flags=0, ah=(self.ah, self.b.qp.qp_num, QKEY)
            )
        self.drain()

    def room(self):
        """How many more may be posted."""
        ring = self.ring
        return (ring.word(CONSUMER).value - ring.word(PRODUCER).value - 1) & ring.word(MASK).value

    def drain(self):
        for _ in range(500 * SLOW):
            if self.room() == self.count:
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.count - self.room()} requests are left")

    def fill(self):
        """Posts as many as there is room for, without a doorbell."""
        ring = self.ring
        ring.word(PRODUCER).value = (ring.word(CONSUMER).value - 1) & ring.word(MASK).value

    def doorbell(self):
        ring_doorbell(self.host.ctx)

    def close(self):
        shut(self.a, self.b)


def need_oxe():
    if os.environ.get("LINK_TYPE", "oxe") != "oxe":
        raise Skip("other drivers do otherwise")


def own_work():
    """All datagrams of one doorbell are sent in its system call."""
    need_oxe()
    sender = Sender(1000)
    with Trace() as trace:
        sender.fill()
        sender.doorbell()
        sender.drain()
    same(
        trace.sent() >= sender.count,
        True,
        f"packets sent ({trace.sent()} for {sender.count} requests)",
    )
    runs, sent = trace.by_work()
    same(sent, 0, f"packets sent by work ({runs} work items)")
    sender.close()


def without_doorbell():
    """Datagrams that are posted without a doorbell, while others are sent, are not sent along."""
    need_oxe()
    sender = Sender(1000)
    before = counters(DEV_A)["sent_pkts"]
    sender.fill()
    sender.doorbell()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sender.fill()
    same(counters(DEV_A)["sent_pkts"] - before, sender.count, "packets sent after one doorbell")
    sender.doorbell()
    sender.drain()
    sender.close()


def attack():
    """Posts and rings the doorbell for ever, whenever there is room."""
    sender = Sender(500)
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        sender.fill()
        sender.doorbell()


def limit(group, text):
    with open(f"{group}/cpu.max", "w", encoding="ascii") as file:
        file.write(text)


def sent_by_attack(group):
    """How many packets a process that never pauses sends in three seconds, in a control group or
    outside."""
    with subprocess.Popen(
        [sys.executable, __file__, "attack"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            same(child.stdout.readline().strip(), "ready", "the process")
            if group:
                with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
                    file.write(str(child.pid))
            child.stdin.write("go\n")
            child.stdin.flush()
            time.sleep(2)
            before = counters(DEV_A)["sent_pkts"]
            time.sleep(3)
            return counters(DEV_A)["sent_pkts"] - before
        finally:
            if group:  # it is to end as fast as it can
                limit(group, "max 100000")
            child.kill()


def limited():
    """A process that may use a hundredth of a processor: it sends no more than that allows."""
    need_oxe()
    if not os.path.exists(f"{CGROUP}/cgroup.controllers"):
        os.system(f"mount -t cgroup2 none {CGROUP}")
    try:
        with open(f"{CGROUP}/cgroup.subtree_control", "w", encoding="ascii") as file:
            file.write("+cpu")
    except OSError as error:
        raise Skip("the kernel limits no processor time") from error
    group = f"{CGROUP}/oxe-charge"
    os.makedirs(group, exist_ok=True)
    limit(group, "1000 100000")
    most = sent_by_attack(None)
    some = sent_by_attack(group)
    os.rmdir(group)
    same(
        some * 10 <= most,
        True,
        "a hundredth of a processor sends at most a tenth "
        f"({some} packets, {most} without a limit)",
    )


CASES = [
    ("datagrams are sent by the process that posts them", own_work),
    ("requests that are posted without a doorbell wait for one", without_doorbell),
    ("a process limited to 1 % of a processor", limited),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["attack"]:
        attack()
    main(CASES)
