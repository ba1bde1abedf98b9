# SPDX-License-Identifier: GPL-2.0
"""A slow wire behind a queue (fq_codel, 100 Mb/s): a queue pair waits for room in there and fills
none of it up, whatever a peer asks for. In the deterministic machine the queue has its default
settings, and the rate counts. Elsewhere the clock runs on when a busy host stops the machine, so
the queue has to tolerate more delay.

The peer speaks RoCE by hand and asks for sixteen READs of 1 MiB at once, which oxe never does.
"""

import ctypes
import json
import os
import subprocess
import time

import enums as e

import roce
from oxetest import (
    SLOW,
    End,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    DEV_A,
)

NS_A, NS_B, VETH = os.environ["NS_A"], os.environ["NS_B"], os.environ["VETH_A"]
IP_A, IP_B = os.environ["IP4_A"], os.environ["IP4_B"]
DETERMINISTIC = os.environ.get("OXE_KERNEL", "stock") == "stock" and os.cpu_count() == 1
PATIENT = "target 100ms interval 1s"
PSN_A, PSN_B = 0x100000, 0x200000
MIB, READS = 1 << 20, 16


def tc(*words):
    return subprocess.run(
        ["tc", "-n", NS_A, *words], check=True, capture_output=True, text=True
    ).stdout


class SlowWire:
    """with SlowWire() as wire: host A sends through a queue. wire.state() gives the counters of the
    queue. By default CoDel drops a packet where the queue stays longer than 5 ms for 100 ms; one
    that is patient drops what waits for 100 ms."""

    def __init__(self, patient=not DETERMINISTIC):
        self.codel = PATIENT.split() if patient else []

    def __enter__(self):
        tc(
            "qdisc",
            "replace",
            "dev",
            VETH,
            "root",
            "handle",
            "1:",
            "tbf",
            "rate",
            "100mbit",
            "burst",
            "16kb",
            "limit",
            "10mb",
        )
        tc("qdisc", "add", "dev", VETH, "parent", "1:1", "handle", "2:", "fq_codel", *self.codel)
        return self

    def __exit__(self, *_):
        tc("qdisc", "del", "dev", VETH, "root")

    def state(self):
        """Bytes that have passed, packets that were dropped, bytes that wait."""
        found = {
            each["kind"]: each for each in json.loads(tc("-s", "-j", "qdisc", "show", "dev", VETH))
        }
        tbf, fq = found["tbf"], found["fq_codel"]
        return fq["bytes"], tbf["drops"] + fq["drops"], max(tbf["backlog"], fq["backlog"])


def many_reads():
    """A peer asks for too many READs: nothing is dropped, no queue of more than some super-packets
    builds up."""
    a, b = End(host_a(), size=MIB), End(host_b())
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B)
    peer = roce.Sender(NS_B, IP_B, IP_A)
    ask = [
        roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B + i * 1024)
        + roce.reth(a.mr.buf, a.mr.rkey, MIB)
        for i in range(READS)
    ]
    with SlowWire() as wire:
        before = counters(DEV_A)["sent_pkts"]
        for packet in ask:
            peer.send(packet)
        most, started = 0, time.monotonic()
        for _ in range(3000 * SLOW):
            time.sleep(0.005)
            passed, dropped, waiting = wire.state()
            most = max(most, waiting)
            sent = counters(DEV_A)["sent_pkts"] - before
            if (sent >= READS * 1024 and not waiting) or dropped:
                break
        took = time.monotonic() - started
        same(dropped, 0, f"packets dropped in the queue, of {sent}")
        same(sent, READS * 1024, "answers")
        same(passed > READS * MIB, True, f"all answers passed ({passed} bytes)")
        same(most <= 512 * 1024, True, f"bytes in the queue at most ({most})")
        rate = READS * MIB * 8 / took / 1e6
        print(
            f"# {rate:.1f} Mb/s of 100 for the data, {most} bytes in the queue at most", flush=True
        )
        same(rate > 90 or not DETERMINISTIC, True, f"more than 90 % of the rate ({rate:.1f} Mb/s)")
    shut(a, b)


def both_ways():
    """Own WRITEs beside such READ responses: all are done. Two windows are in one queue, until
    CoDel drops a packet as a sign of congestion: a patient queue has room for both."""
    a, b = End(host_a(), size=MIB, depth=64), End(host_b(), size=MIB, depth=64)
    connect(a, b, timeout=18)
    with SlowWire(patient=True) as wire:
        for i in range(8):
            b.send(e.IBV_WR_RDMA_READ, b.sge(MIB // 2), wr_id=i, remote=a.remote())
            a.send(
                e.IBV_WR_RDMA_WRITE, a.sge(MIB // 2, MIB // 2), wr_id=i, remote=b.remote(MIB // 2)
            )
        most = 0
        for _ in range(3000 * SLOW):
            passed, dropped, waiting = wire.state()
            most = max(most, waiting)
            if passed > 8 * MIB or dropped:
                break
            time.sleep(0.005)
        good(poll(a.cq, 8, 60) + poll(b.cq, 8, 60))
        same(wire.state()[1], 0, "packets dropped in the queue")
        same(most <= 256 * 1024, True, f"bytes in the queue at most ({most})")
    shut(a, b)


def gone():
    """A queue pair that waits for room is destroyed: nothing waits for the queue."""
    a, b = End(host_a(), size=MIB), End(host_b())
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B)
    peer = roce.Sender(NS_B, IP_B, IP_A)
    with SlowWire():
        for i in range(READS):
            peer.send(
                roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B + i * 1024)
                + roce.reth(a.mr.buf, a.mr.rkey, MIB)
            )
        time.sleep(0.1)
        a.qp.close()
    shut(a, b)


def refused():
    """The queue has no room and refuses packets (NET_XMIT_DROP). They are lost like others: they
    come again, and no request fails."""
    size = MIB // 8
    a, b = End(host_a(), size=size), End(host_b(), size=size)
    connect(a, b, timeout=14)
    data = os.urandom(size)
    ctypes.memmove(a.mr.buf, data, size)
    before = counters(DEV_A)["send_err"]
    # A full queue is empty again after 48 ms. The debug kernel, too, makes its next super-packet
    # in that time.
    tc("qdisc", "replace", "dev", VETH, "root", "tbf", *"rate 1mbit burst 4kb limit 6kb".split())
    try:
        for i in range(8):
            part = size // 8
            a.send(
                e.IBV_WR_RDMA_WRITE, a.sge(part, i * part), wr_id=i, remote=b.remote(i * part)
            )
        good(poll(a.cq, 8, 60))
    finally:
        tc("qdisc", "del", "dev", VETH, "root")
    same(ctypes.string_at(b.mr.buf, size) == data, True, "the data arrived")
    count = counters(DEV_A)["send_err"] - before
    same(count > 0, True, f"packets that were refused ({count})")
    shut(a, b)


CASES = [
    ("sixteen READs of 1 MiB through a queue of 100 Mb/s", many_reads),
    ("requests beside answers through such a queue", both_ways),
    ("a queue pair that waits for room is destroyed", gone),
    ("a queue that refuses packets", refused),
]

if __name__ == "__main__":
    main(CASES)
