# SPDX-License-Identifier: GPL-2.0
"""The reaction point of connections: host B sends to A, and is notified.

"on", "cuts": with congestion_control=dcqcn; "off": without it, where there is none of it; "queue":
with it, through a queue that marks packets; "tuned": without it, chosen by device.
"""

import os
import pathlib
import socket
import struct
import sys
import time

import enums as e

import roce
from details import of_qp
from ecn import UC, UD, V4, V6, ends, marks, message
from oxetest import DEV_A, DEV_B, SLOW, counters, good, main, poll, same, shut, until

NS_A, VETH_A = os.environ["NS_A"], os.environ["VETH_A"]
ECT_0 = 2
OUTGOING = 4
LONG = 60000
# Mb/s, of a netdev that tells none. How far below it a rate falls is up to the speed of the
# machine, since it grows with time.
LINE = 10_000
MANY = 50
QUIET = 0.3 * SLOW
OPCODES = {"READ request": 0x0C, "ACK": 0x11}


class Seen:
    """The packets of B that come to A's netdev: (opcode, ECN field, whether they have payload)."""

    def __init__(self):
        def make():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
            made.bind((VETH_A, 3))
            return made

        self.socket = roce.in_namespace(NS_A, make)

    def all(self):
        found = []
        self.socket.settimeout(QUIET)
        while True:
            try:
                frame, address = self.socket.recvfrom(65536)
            except TimeoutError:
                return found
            ip, (kind,) = frame[14:], struct.unpack_from("!H", frame, 12)
            head = {0x0800: 20, 0x86DD: 40}.get(kind)
            if head is None or address[2] == OUTGOING or ip[9 if head == 20 else 6] != 17:
                continue
            if struct.unpack_from("!H", ip, head + 2)[0] != roce.PORT:
                continue
            first = struct.unpack_from("!I", ip)[0]
            tclass = ip[1] if head == 20 else first >> 20 & 0xFF
            body = ip[head + 8 :]
            found.append((body[0], tclass & 3, len(body) > 40))

    def close(self):
        self.socket.close()


def fill(end, seed):
    data = bytes((i * 7 + (i >> 8) + seed) & 0xFF for i in range(end.mr.length))
    end.mr.write(data, len(data))
    return data


def holds(end, data):
    same(end.mr.read(len(data), 0) == data, True, "the data")


def post_writes(a, b, count):
    """WRITEs of B to A; gives the CQ of their completions."""
    for _ in range(count):
        b.send(e.IBV_WR_RDMA_WRITE, b.sge(LONG), remote=a.remote())
    return b.cq


def post_reads(a, b, count):
    """READs of A from B, whose responses B sends."""
    for _ in range(count):
        a.send(e.IBV_WR_RDMA_READ, a.sge(LONG), remote=b.remote())
    return a.cq


def transfer(post, a, b, count=1, meanwhile=lambda: None):
    """All of them, to their end; gives what meanwhile() said."""
    cq = post(a, b, count)
    said = meanwhile()
    good(poll(cq, count, seconds=120 * SLOW))
    return said


class Counted:
    """with Counted() as counted: the rise of counters since."""

    def __enter__(self):
        self.before = counters(DEV_A), counters(DEV_B)
        return self

    def __exit__(self, *_):
        marks(None)

    def rise(self, name, of_b=True):
        return counters(DEV_B if of_b else DEV_A)[name] - self.before[of_b][name]


def ecn_fields(gids, capable):
    """WRITEs, a READ of each side, and an ACK: those with payload are ECT(0), or none is."""
    a, b = ends(gids)
    seen = Seen()
    transfer(post_writes, a, b)
    transfer(post_reads, a, b)
    b.send(e.IBV_WR_RDMA_READ, b.sge(100), remote=a.remote())
    good(poll(b.cq))
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(100), remote=b.remote())
    good(poll(a.cq))
    found = seen.all()
    seen.close()
    shut(a, b)
    want = ECT_0 if capable else 0
    same({field for _, field, payload in found if payload}, {want}, "ECN fields with payload")
    same({field for _, field, payload in found if not payload}, {0}, "ECN fields without")
    for name, opcode in OPCODES.items():
        same(opcode in {each for each, _, _ in found}, True, f"{name}: a packet")


def others_are_not_capable():
    for kind in (UC, UD):
        a, b = ends(V4, kind)
        seen = Seen()
        message(a, b)
        same({field for _, field, _ in seen.all()}, {0}, "ECN fields")
        seen.close()
        shut(a, b)


def rate_of(end):
    """What limits its rate, in Mb/s, when it has sent for a while."""
    time.sleep(0.1 * SLOW)
    return of_qp(end).get("rp_rate_mbps")


def cuts(gids, post, source):
    """Marked packets: CNPs are handled, the rate falls, the data is right; without marks the rate
    comes back."""
    a, b = ends(gids)
    data = fill((a, b)[source], 1)
    transfer(post, a, b)
    same(of_qp(b).get("rp_rate_mbps"), None, "the rate before a CNP")
    fill((a, b)[1 - source], 2)
    with Counted() as counted:
        marks("ce")
        rate = transfer(post, a, b, MANY, lambda: rate_of(b))
        until(
            lambda: counted.rise("rp_cnp_handled") == counted.rise("np_cnp_sent", False),
            "each CNP to be handled",
        )
        same(counted.rise("rp_cnp_handled") > 10, True, "CNPs were handled")
        same(counted.rise("rp_cnp_ignored"), 0, "CNPs ignored")
    same(rate is not None and rate < LINE, True, f"the rate is {rate} Mb/s")
    for end in (a, b):
        same(end.mr.read(LONG, 0) == data[:LONG], True, "the data")

    def is_free():
        transfer(post, a, b)
        return of_qp(b).get("rp_rate_mbps") is None

    until(is_free, "the rate to come back")
    shut(a, b)


def ignores():
    """Without the parameter CNPs cut nothing."""
    a, b = ends(V4)
    with Counted() as counted:
        marks("ce")
        transfer(post_writes, a, b)
        same(counted.rise("rp_cnp_ignored") > 0, True, "CNPs ignored")
        same(counted.rise("rp_cnp_handled"), 0, "CNPs handled")
        same(of_qp(b).get("rp_rate_mbps"), None, "the rate")
    shut(a, b)


def queue():
    """Four connections, which write and read beside each other."""
    pairs = [ends(V4) for _ in range(4)]
    data = [(fill(a, 2 * n), fill(b, 2 * n + 1)) for n, (a, b) in enumerate(pairs)]
    with Counted() as counted:
        for n, (a, b) in enumerate(pairs):
            for _ in range(20):
                if n % 2:
                    a.send(e.IBV_WR_RDMA_READ, a.sge(LONG), remote=b.remote())
                else:
                    b.send(e.IBV_WR_RDMA_WRITE, b.sge(LONG), remote=a.remote())
        for n, (a, b) in enumerate(pairs):
            good(poll(a.cq if n % 2 else b.cq, 20, seconds=120 * SLOW))
        marked = counted.rise("np_ecn_marked_roce_packets", False)
        same(marked > 0, True, f"{marked} packets were marked")
        same(counted.rise("rp_cnp_handled") > 0, True, "CNPs were handled")
        same(counted.rise("rp_cnp_ignored"), 0, "CNPs ignored")
    for (a, b), (_, sent) in zip(pairs, data):
        same(a.mr.read(LONG, 0) == sent[:LONG], True, "the data")
        shut(a, b)


def tune(name, value):
    """A file of B in debugfs."""
    pathlib.Path("/sys/kernel/debug/oxe", DEV_B, name).write_text(value, encoding="ascii")


def fields_of(a, b):
    """The ECN fields of packets with payload of WRITEs of B to A."""
    seen = Seen()
    transfer(post_writes, a, b)
    found = seen.all()
    seen.close()
    return {field for _, field, payload in found if payload}


def chosen():
    """A connection keeps the controller that its device had when it was made."""
    old = ends(V4)
    tune("congestion_control", "dcqcn")
    new = ends(V4)
    same(fields_of(*old), {0}, "ECN fields of a connection made before")
    same(fields_of(*new), {ECT_0}, "ECN fields of one made afterwards")
    tune("congestion_control", "cubic")
    same(fields_of(*new), {ECT_0}, "ECN fields of that, cubic chosen")
    shut(*old, *new)


def without_growth(least):
    """Connections of B have DCQCN from now on, whose rates fall to the least one, in Mb/s."""
    tune("congestion_control", "dcqcn")
    for name, value in WITHOUT_GROWTH.items():
        tune(f"cc_params/{name}", value)
    tune("cc_params/rp_min_rate", str(least))


def smallest():
    """The rate falls to the least one, which is 700 Mb/s, without growth; also of a connection
    that goes on when another is asked for."""
    without_growth(700)
    a, b = ends(V4)
    tune("cc_params/rp_min_rate", "1")
    with Counted() as counted:
        marks("ce")
        transfer(post_writes, a, b, MANY)
        until(lambda: counted.rise("rp_cnp_handled") > 10, "CNPs to be handled")
        transfer(post_writes, a, b, MANY)
    same(of_qp(b).get("rp_rate_mbps"), 700, "the rate")
    shut(a, b)


def acks_go_on():
    """B acknowledges A's WRITE before its own WRITEs, which take seconds at its rate."""
    without_growth(1)
    # A step of growth, eight in a second, does not go towards the rate before the first cut.
    tune("cc_params/rp_clamp_tgt_rate", "1")
    tune("cc_params/rp_ai_rate", "1")
    a, b = ends(V4)
    with Counted() as counted:
        marks("ce")
        while counted.rise("rp_cnp_handled") < 12:
            transfer(post_writes, a, b)
    rate = of_qp(b).get("rp_rate_mbps")
    same(rate is not None and rate <= 20, True, f"the rate is {rate} Mb/s")
    post_writes(a, b, MANY)
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(100), remote=b.remote(LONG))
    good(poll(a.cq))
    done, completions = b.cq.poll(MANY)
    good(completions)
    same(done < MANY, True, f"{done} WRITEs of B were through")
    shut(a, b)


# No growth, and alpha stays what it is.
WITHOUT_GROWTH = {
    "rp_byte_reset": "0",
    "rp_time_reset": "131071",
    "rp_dce_tcp_rtt": "131071",
}
CASES = {
    "tuned": [
        ("connections have the controller of their time", chosen),
        ("connections have the parameters of their time", smallest),
        ("an ACK goes before WRITEs that wait", acks_go_on),
    ],
    "off": [
        ("without the parameter packets are not ECN-capable", ecn_fields, V4, False),
        ("without the parameter CNPs are ignored", ignores),
    ],
    "on": [
        ("packets with payload are ECN-capable, others are not", ecn_fields, V4, True),
        ("packets with payload are ECN-capable, IPv6", ecn_fields, V6, True),
        ("packets of UC and UD are not", others_are_not_capable),
    ],
    "cuts": [
        ("CNPs cut the rate of WRITEs", cuts, V4, post_writes, 1),
        ("CNPs cut the rate of WRITEs, IPv6", cuts, V6, post_writes, 1),
        ("CNPs cut the rate of READ responses", cuts, V4, post_reads, 1),
    ],
    "queue": [("the senders of packets that a queue marks are notified", queue)],
}

if __name__ == "__main__":
    which = sys.argv[1]
    sys.argv[1:] = []
    main(CASES[which])
