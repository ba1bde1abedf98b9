# SPDX-License-Identifier: GPL-2.0
"""CNPs that host A sends for packets of host B that are marked CE, as they arrive at B.

"interval N": instead, how many CNPs A sends for 20 messages on each of two connections is N for
each.
"""

import os
import socket
import struct
import subprocess
import sys
import time

import enums as e

import partners
import roce
from oxetest import (
    DEV_A,
    DEV_B,
    GID6_A,
    GID6_B,
    QKEY,
    SLOW,
    End,
    ah_to,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    until,
)

NS_B, VETH_B = os.environ["NS_B"], os.environ["VETH_B"]
IP4_A, IP4_B = os.environ["IP4_A"], os.environ["IP4_B"]
V4, V6 = (None, None), (GID6_A, GID6_B)
RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
PSN_A, PSN_B = 0x1000, 0x2000
DSCP = 48
OUTGOING = 4
QUIET = 0.3 * SLOW


class Cnps:
    """The CNPs that come to host B's netdev."""

    def __init__(self):
        def make():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.bind((VETH_B, 3))
            return made

        self.socket = roce.in_namespace(NS_B, make)

    def next(self, seconds):
        """The next one's IP header, source port, and UDP payload; None if none comes."""
        end = time.monotonic() + seconds
        while True:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                frame, address = self.socket.recvfrom(65536)
            except TimeoutError:
                return None
            ip, (kind,) = frame[14:], struct.unpack_from("!H", frame, 12)
            head = {0x0800: 20, 0x86DD: 40}.get(kind)
            if head is None or address[2] == OUTGOING or ip[9 if head == 20 else 6] != 17:
                continue
            port, to = struct.unpack_from("!HH", ip, head)
            body = ip[head + 8 :]
            if to == roce.PORT and body[0] == roce.CNP:
                return ip[:head], port, body

    def all(self):
        """All that come, until none does for a while."""
        found = []
        while (cnp := self.next(QUIET)) is not None:
            found.append(cnp)
        return found

    def check(self, qpn):
        """There is one, to this queue pair, and every bit of it is right."""
        found = self.all()
        same(len(found), 1, "CNPs")
        ip, port, body = found[0]
        first = struct.unpack_from("!I", ip)[0]
        tclass = ip[1] if len(ip) == 20 else first >> 20 & 0xFF
        same((tclass >> 2, tclass & 3), (DSCP, 0), "DSCP and ECN field")
        same(body[:5].hex(" "), "81 00 ff ff 40", "the BTH's first bytes")
        same(int.from_bytes(body[5:8], "big"), qpn, "destination QP")
        same(body[8:28], bytes(20), "AckReq, PSN and reserved bytes")
        same(body[28:].hex(), roce.icrc(ip, body[:28], port).hex(), "ICRC")

    def close(self):
        self.socket.close()


def marks(ecn):
    """Has host B's packets leave with this ECN field; None: as they are. (nft's "ip6 ecn set" has
    no effect on packets that leave, tried on 7.3; their traffic class and flow label are 0.)"""
    field = ("not-ect", "ect1", "ect0", "ce", None).index(ecn)
    text = "table inet oxe_ecn\ndelete table inet oxe_ecn\n"
    if ecn is not None:
        text += f"""table inet oxe_ecn {{
            chain out {{
                type filter hook output priority 0;
                meta nfproto ipv4 udp dport 4791 ip ecn set {ecn}
                meta nfproto ipv6 udp dport 4791 @nh,0,16 set {0x6000 | field << 4:#x}
            }}
        }}
        """
    where = ["nsenter", f"--net=/run/netns/{NS_B}", "nft", "-f", "-"]
    subprocess.run(where, input=text, text=True, check=True)


class Marked:
    """with Marked(ecn): B's packets have this ECN field. Also counts what A counts meanwhile."""

    def __init__(self, ecn):
        self.ecn = ecn

    def __enter__(self):
        self.cnps = Cnps()
        self.before = counters(DEV_A), counters(DEV_B)
        marks(self.ecn)
        return self

    def __exit__(self, *_):
        marks(None)
        self.cnps.close()

    def rise(self, name, of_b=False):
        return counters(DEV_B if of_b else DEV_A)[name] - self.before[of_b][name]

    def one_for(self, qpn, marked):
        """A has sent one CNP, which B has ignored, for this many marked packets at least."""
        self.cnps.check(qpn)
        same(self.rise("np_cnp_sent"), 1, "CNPs counted")
        same(self.rise("rp_cnp_ignored", True), 1, "CNPs ignored")
        same(self.rise("np_ecn_marked_roce_packets") >= marked, True, "packets counted as marked")

    def none(self):
        same(len(self.cnps.all()), 0, "CNPs")
        same(self.rise("np_cnp_sent"), 0, "CNPs counted")


def ends(gids, kind=RC):
    a, b = End(host_a(gids[0]), kind), End(host_b(gids[1]), kind)
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B)
    if kind != UD:
        partners.note(a.host.gid_value(), a.qp.qp_num, b.host.gid_value(), b.qp.qp_num)
    return a, b


def message(a, b, length=100):
    """From B to A, received."""
    a.recv(a.sge())
    ah = (ah_to(b.host, a.host), a.qp.qp_num, QKEY) if a.type == UD else None
    b.send(e.IBV_WR_SEND, b.sge(length), ah=ah)
    good(poll(b.cq) + poll(a.rcq))


def of_message(gids, kind, length, packets):
    a, b = ends(gids, kind)
    with Marked("ce") as marked:
        message(a, b, length)
        marked.one_for(b.qp.qp_num, packets)
    shut(a, b)


def of_super_packets(gids):
    """A super-packet is marked as a whole. There are no more CNPs than packets."""
    a, b = ends(gids)
    with Marked("ce") as marked:
        message(a, b, 60000)
        found = marked.cnps.all()
        same({int.from_bytes(body[5:8], "big") for _, _, body in found}, {b.qp.qp_num}, "QPs")
        packets = marked.rise("np_ecn_marked_roce_packets")
        same(packets >= 59, True, "packets counted as marked")
        same(1 <= len(found) <= packets, True, "number of CNPs")
        same(marked.rise("np_cnp_sent"), len(found), "CNPs counted")
    shut(a, b)


def of_write(gids):
    a, b = ends(gids)
    with Marked("ce") as marked:
        b.send(e.IBV_WR_RDMA_WRITE, b.sge(100), remote=a.remote())
        good(poll(b.cq))
        marked.one_for(b.qp.qp_num, 1)
    shut(a, b)


def of_read(gids):
    """A READ of A: B's responses are marked."""
    a, b = ends(gids)
    with Marked("ce") as marked:
        a.send(e.IBV_WR_RDMA_READ, a.sge(100), remote=b.remote())
        good(poll(a.cq))
        marked.one_for(b.qp.qp_num, 1)
    shut(a, b)


def of_none(gids, ecn):
    for kind in (RC, UC, UD):
        a, b = ends(gids, kind)
        with Marked(ecn) as marked:
            message(a, b)
            marked.none()
            same(marked.rise("np_ecn_marked_roce_packets"), 0, "packets counted as marked")
        shut(a, b)


def of_packets_without_data(gids):
    """Marked ACKs, requests to READ, atomics, and a message of no bytes."""
    a, b = ends(gids)
    with Marked("ce") as marked:
        b.recv(b.sge())
        a.send(e.IBV_WR_SEND, a.sge(100))
        good(poll(a.cq) + poll(b.rcq))
        b.send(e.IBV_WR_RDMA_READ, b.sge(100), remote=a.remote())
        b.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, b.sge(8), remote=a.remote(), atomic=(1, 0))
        a.recv(a.sge())
        b.send(e.IBV_WR_SEND, b.sge(0))
        good(poll(b.cq, 3) + poll(a.rcq))
        marked.none()
        same(marked.rise("np_ecn_marked_roce_packets") >= 4, True, "packets counted as marked")
    shut(a, b)


def of_dropped():
    """By hand, marked: packets that A drops. Then one that it takes."""
    a, b = ends(V4)
    sender = roce.Sender(NS_B, IP4_B, IP4_A, tclass=3)
    a.recv(a.sge())
    a.recv(a.sge())
    message_body = bytes(64)

    def send(psn=PSN_B, qpn=None, good_icrc=True, **bth):
        qpn = a.qp.qp_num if qpn is None else qpn
        sender.send(roce.bth(roce.SEND_ONLY, qpn, psn, **bth) + message_body, good=good_icrc)

    with Marked(None) as marked:
        before = counters(DEV_A)["rcvd_pkts"]
        send(good_icrc=False)
        send(qpn=0xFFFFF0)
        send(pkey=0x1234)
        send(psn=PSN_B + 9)  # after a gap
        send(psn=PSN_B - 1)  # a duplicate
        until(lambda: counters(DEV_A)["rcvd_pkts"] - before >= 5, "the packets")
        marked.none()
        same(marked.rise("np_ecn_marked_roce_packets"), 5, "packets counted as marked")
    with Marked(None) as marked:
        send()
        good(poll(a.rcq))
        marked.one_for(b.qp.qp_num, 1)
        send()  # again
        same(len(marked.cnps.all()), 0, "CNPs for a duplicate")
    shut(a, b)


def interval(want):
    """20 messages on each of two connections."""
    pairs = [ends(V4) for _ in range(2)]
    with Marked("ce") as marked:
        for a, b in pairs:
            for _ in range(20):
                message(a, b)
        found = [int.from_bytes(body[5:8], "big") for _, _, body in marked.cnps.all()]
        expected = [b.qp.qp_num for _, b in pairs for _ in range(want)]
        same(sorted(found), sorted(expected), "destination QPs of CNPs")
    for a, b in pairs:
        shut(a, b)


def versions(name, function, *args):
    return [(name, function, V4, *args), (f"{name}, IPv6", function, V6, *args)]


CASES = [
    *versions("a SEND that is marked gets a CNP", of_message, RC, 100, 1),
    *versions("a WRITE that is marked gets a CNP", of_write),
    *versions("a READ response that is marked gets a CNP", of_read),
    *versions("a message of UC that is marked gets a CNP", of_message, UC, 100, 1),
    *versions("a datagram that is marked gets a CNP", of_message, UD, 100, 1),
    *versions("super-packets that are marked get CNPs", of_super_packets),
    *versions("what is not marked gets no CNP", of_none, "not-ect"),
    *versions("ECT(0) is no mark", of_none, "ect0"),
    *versions("ECT(1) is no mark", of_none, "ect1"),
    *versions("packets without data get no CNP", of_packets_without_data),
    ("packets that are dropped get no CNP", of_dropped),
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["interval"]:
        number = int(sys.argv[2])
        sys.argv[1:] = []
        main([(f"CNPs of 20 messages: {number} for each queue pair", interval, number)])
    else:
        main(CASES)
