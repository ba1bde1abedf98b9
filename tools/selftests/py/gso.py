# SPDX-License-Identifier: GPL-2.0
"""GSO super-packets from a sender that is not to be trusted: right ones are taken, and taken whole;
wrong ones harm nothing else.

The sender is on host B and acts, for the queue pairs of host A, as the peer: the true peer on host
B sends nothing.
"""

import ctypes
import os
import random
import time

import enums as e

import roce
from oxetest import (
    DEV_A,
    QKEY,
    End,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    until,
)

OXE = os.environ.get("LINK_TYPE", "oxe") == "oxe"
PSN_A, PSN_B = 0x100000, 0xFFFFFC  # the PSN of incoming packets wraps
MTU = 1024

gso = roce.GsoSocket(
    os.environ["NS_B"],
    os.environ["VETH_B"],
    os.environ["MAC_A"],
    os.environ["IP4_B"],
    os.environ["IP4_A"],
)


def target(timeout=10):
    """A queue pair to be sent to, its memory filled with one byte; and its peer."""
    a, b = End(host_a(), depth=200, cqe=500), End(host_b())
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B, timeout=timeout, retry=3)
    ctypes.memset(a.mr.buf, 0xC5, a.mr.length)
    return a, b


def send_only(end, k, payload):
    return roce.bth(roce.SEND_ONLY, end.qp.qp_num, PSN_B + k) + payload


def memory(end, start=0, length=None):
    return ctypes.string_at(end.mr.buf + start, end.mr.length - start if length is None else length)


def datagrams_of_host_a():
    """How many datagrams the UDP sockets of host A took, without those that the driver's hook
    takes."""

    def read():
        with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
            names, values = [line.split() for line in file if line.startswith("Udp:")]
        return int(values[names.index("InDatagrams")])

    return roce.in_namespace(os.environ["NS_A"], read)


def taken_whole():
    """20 messages in one super-packet, the last one shorter: each completes, in order; UDP's socket
    has seen none."""
    a, b = target()
    before = datagrams_of_host_a()
    payloads = [bytes([k]) * (500 if k < 19 else 300) for k in range(20)]
    for k in range(20):
        a.recv(a.sge(500, 1000 * k), wr_id=k)
    gso.send([send_only(a, k, payload) for k, payload in enumerate(payloads)])
    wcs = good(poll(a.rcq, 20))
    same(
        [(wc.wr_id, wc.byte_len) for wc in wcs],
        [(k, len(p)) for k, p in enumerate(payloads)],
        "completions",
    )
    for k, payload in enumerate(payloads):
        same(memory(a, 1000 * k, 500), payload.ljust(500, b"\xc5"), f"message {k}")
    if OXE:
        same(datagrams_of_host_a() - before, 0, "datagrams that UDP's socket took")
    shut(a, b)


def bad_in_the_middle():
    """One of ten has a bad ICRC: the four before it are taken, the five after it are not, until it
    comes again."""
    a, b = target()
    before = counters(DEV_A)
    for k in range(10):
        a.recv(a.sge(100, 200 * k), wr_id=k)
    bodies = [send_only(a, k, bytes([k]) * 100) for k in range(10)]
    gso.send(bodies, bad=[4])
    good(poll(a.rcq, 4))
    none_pending(a.rcq)
    if OXE:
        after = counters(DEV_A)
        same(after["rcvd_bad_icrc"] - before["rcvd_bad_icrc"], 1, "bad ICRCs")
        same(
            after["rcvd_bad_icrc_gso"] - before["rcvd_bad_icrc_gso"],
            1,
            "bad ICRCs in super-packets",
        )
    gso.send(bodies[2:])
    same([wc.wr_id for wc in good(poll(a.rcq, 6))], list(range(4, 10)), "the others")
    same(
        memory(a, 0, 2000), b"".join(bytes([k]) * 100 + b"\xc5" * 100 for k in range(10)), "memory"
    )
    none_pending(a.rcq)
    shut(a, b)


def two_queue_pairs():
    """A super-packet whose packets alternate between two queue pairs and a number without a queue
    pair."""
    (a, b), (c, d) = target(), target()
    for k in range(8):
        a.recv(a.sge(64, 64 * k), wr_id=k)
        c.recv(c.sge(64, 64 * k), wr_id=k)
    bodies = []
    for k in range(8):
        bodies += [
            send_only(a, k, bytes([k]) * 64),
            send_only(c, k, bytes([0x80 + k]) * 64),
            roce.bth(roce.SEND_ONLY, 0x700000, PSN_B) + bytes(64),
        ]
    gso.send(bodies)
    for end, mark in ((a, 0), (c, 0x80)):
        same([wc.wr_id for wc in good(poll(end.rcq, 8))], list(range(8)), "completions")
        same(memory(end, 0, 512), b"".join(bytes([mark + k]) * 64 for k in range(8)), "memory")
    shut(a, b, c, d)


def long_write(end, said, middles):
    """The packets of a WRITE to byte 1000: FIRST and as many MIDDLEs; said is the length in the
    RETH."""
    first = roce.bth(roce.WRITE_FIRST, end.qp.qp_num, PSN_B) + roce.reth(
        end.mr.buf + 1000, end.mr.rkey, said
    )
    return [first + b"\xee" * MTU], [
        roce.bth(roce.WRITE_MIDDLE, end.qp.qp_num, PSN_B + k) + b"\xee" * MTU
        for k in range(1, middles + 1)
    ]


def write():
    """A WRITE of 30 packets. Its MIDDLEs go as one super-packet, with one that is spoilt; then
    again, from before that one on."""
    a, b = target()
    first, middles = long_write(a, 30 * MTU - 24, 28)
    gso.send(first)
    gso.send(middles[:9] + [middles[9][:-MTU] + b"\xdd" * MTU] + middles[10:], bad=[9])
    until(lambda: memory(a, 1000, 10 * MTU) == b"\xee" * 10 * MTU, "the first ten packets")
    same(memory(a, 1000, 30 * MTU), b"\xee" * 10 * MTU + b"\xc5" * 20 * MTU, "memory so far")
    gso.send(middles[5:])
    gso.send([roce.bth(roce.WRITE_LAST, a.qp.qp_num, PSN_B + 29) + b"\xee" * (MTU - 24)])
    a.recv(a.sge(4))
    gso.send([send_only(a, 30, b"done")])
    good(poll(a.rcq))
    same(
        memory(a),
        b"done"
        + b"\xc5" * 996
        + b"\xee" * (30 * MTU - 24)
        + b"\xc5" * (65536 - 1000 - 30 * MTU + 24),
        "memory",
    )
    shut(a, b)


def write_past_its_end():
    """A super-packet of more MIDDLEs than the WRITE has room for; and of some that end with it,
    where a LAST should be. Those before the first such one are taken, and that is the end of the
    queue pair."""
    for said, middles in (
        (5 * MTU, 20),
        (5 * MTU - 1, 20),
        (2 * MTU, 1),
        (5 * MTU, 4),
        (MTU + 1, 3),
    ):
        a, b = target()
        first, packets = long_write(a, said, middles)
        gso.send(first)
        gso.send(packets)
        until(lambda: a.state() == e.IBV_QPS_ERR, "the error state")
        same(
            memory(a, 0, 1000) + memory(a, 1000 + said),
            b"\xc5" * (65536 - said),
            f"memory outside {said} bytes",
        )
        taken = (said - 1) // MTU * MTU
        same(
            memory(a, 1000, said), (b"\xee" * taken).ljust(said, b"\xc5"), f"memory of {said} bytes"
        )
        same(a.state(), e.IBV_QPS_ERR, "state")
        shut(a, b)


def send_past_the_buffer():
    """A super-packet of MIDDLEs of a SEND that is longer than the receive: what lies behind the
    buffer stays."""
    for room in (MTU, 3 * MTU, 3 * MTU + 1, 5 * MTU - 1):
        a, b = target()
        a.recv(a.sge(room, 1000), wr_id=7)
        gso.send(
            [roce.bth(roce.SEND_FIRST, a.qp.qp_num, PSN_B) + b"\xee" * MTU]
            + [
                roce.bth(roce.SEND_MIDDLE, a.qp.qp_num, PSN_B + k) + b"\xee" * MTU
                for k in range(1, 20)
            ]
        )
        (wc,) = poll(a.rcq)
        same((wc.wr_id, wc.status), (7, e.IBV_WC_LOC_LEN_ERR), "the receive")
        same(
            memory(a, 0, 1000) + memory(a, 1000 + room),
            b"\xc5" * (65536 - room),
            f"memory outside {room} bytes",
        )
        shut(a, b)


def answers_nobody_asked_for():
    """Super-packets of READ responses: without a request they change nothing; too long for it they
    fail it."""
    for length in (0, 2 * MTU):
        a, b = target(timeout=19)
        b.to_state(e.IBV_QPS_ERR)  # the true peer keeps silent
        if length:
            a.send(e.IBV_WR_RDMA_READ, a.sge(length, 1000), remote=b.remote())
            time.sleep(0.05)
        gso.send(
            [roce.bth(roce.READ_FIRST, a.qp.qp_num, PSN_A) + roce.aeth(0x1F, 1) + b"\xee" * MTU]
        )
        gso.send(
            [
                roce.bth(roce.READ_MIDDLE, a.qp.qp_num, PSN_A + k) + b"\xee" * MTU
                for k in range(1, 20)
            ]
        )
        if length:
            (wc,) = poll(a.cq)
            # The second one should have been a LAST.
            same(wc.status, e.IBV_WC_BAD_RESP_ERR, "status")
            same(memory(a, 1000, length), (b"\xee" * MTU).ljust(length, b"\xc5"), "the sink")
        else:
            time.sleep(0.05)
            same(a.state(), e.IBV_QPS_RTS, "state")
        same(
            memory(a, 0, 1000) + memory(a, 1000 + length),
            b"\xc5" * (65536 - length),
            "memory outside the sink",
        )
        shut(a, b)


def datagrams():
    """Super-packets for a UD queue pair: one whose third datagram has a wrong key, and one whose
    datagrams fit into no buffer. Each datagram that is taken has its own length in the IP header
    before it."""
    a = End(host_a(), e.IBV_QPT_UD)
    a.to_init()
    a.to_rtr(None, 0)
    ctypes.memset(a.mr.buf, 0xC5, a.mr.length)
    for k in range(4):
        a.recv(a.sge(140, 1000 * k), wr_id=k)

    def datagrams_of(lengths, wrong):
        gso.send(
            [
                roce.bth(roce.UD_SEND_ONLY, a.qp.qp_num, k)
                + roce.deth(QKEY + (k in wrong), 5)
                + bytes([k]) * n
                for k, n in enumerate(lengths)
            ]
        )

    datagrams_of([200] * 5, [])
    datagrams_of([100, 100, 100, 60], [2])
    wcs = good(poll(a.rcq, 3))
    same([(wc.wr_id, wc.byte_len) for wc in wcs], [(0, 140), (1, 140), (2, 100)], "completions")
    none_pending(a.rcq)
    found = memory(a)
    for k, mark, n in ((0, 0, 100), (1, 1, 100), (2, 3, 60)):
        area, rest = found[1000 * k : 1000 * k + 40], found[1000 * k + 40 : 1000 * k + 1000]
        same(int.from_bytes(area[22:24], "big"), 20 + 8 + 12 + 8 + n + 4, "length in the IP header")
        same(rest, (bytes([mark]) * n).ljust(960, b"\xc5"), f"buffer {k}")
    same(found[3000:], b"\xc5" * (a.mr.length - 3000), "memory behind")
    shut(a)


def any_size():
    """The same bytes cut at every length from 1 on, where few pieces or none are packets."""
    a, b = target()
    a.recv(a.sge(100, 1000))
    good_one = send_only(a, 0x300000, bytes(40))
    rng = random.Random(17)
    for each in list(range(1, 80)) + [500, 1000, 1471]:
        # The kernel sends no more than 128 at a time.
        gso.raw((good_one * 3 + rng.randbytes(1400))[: each * 128], each)
    gso.send([send_only(a, 0, bytes(100))])
    (wc,) = good(poll(a.rcq))
    same(wc.byte_len, 100, "length of what came")
    shut(a, b)


def noise():
    """Random super-packets with good ICRCs, for two queue pairs, at PSNs that are expected and
    others: memory around buffers stays."""
    rng, written = random.Random(4791), 0
    for _ in range(40):
        (a, b), (c, d) = target(), target()
        for end in (a, c):
            for k in range(4):
                end.recv(end.sge(1500, 10000 + 2000 * k))
        psn = PSN_B + rng.randrange(-1, 2)
        for _ in range(12):
            each, opcode, step = (
                rng.choice((0, 20, 100, MTU)),
                rng.randrange(0x20),
                rng.choice((0, 1, 1, 1, 2)),
            )
            bodies = []
            for _ in range(rng.randrange(1, 25)):
                if rng.randrange(6) == 0:
                    opcode = rng.choice(
                        (0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 17, rng.randrange(256))
                    )
                head = roce.bth(
                    opcode,
                    (a if rng.randrange(8) else c).qp.qp_num,
                    psn,
                    pad=rng.choice((0, 0, 0, 0, 1, 3)),
                    ack=rng.randrange(2),
                    solicited=rng.randrange(9) == 0,
                )
                bodies.append(
                    head
                    + roce.reth(a.mr.buf + 60000, a.mr.rkey, rng.choice((0, 20, 100, 5000, 2**31)))
                    + b"\xee" * each
                )
                psn = (psn + step) & 0xFFFFFF
            if len(bodies) * (len(bodies[0]) + 4) < 65000:
                gso.send(bodies, bad=[n for n in range(len(bodies)) if rng.randrange(30) == 0])
        for end in (a, c):
            found = memory(end)
            around = (
                found[:10000]
                + b"".join(found[k + 1500 : k + 2000] for k in range(10000, 18000, 2000))
                + found[18000:60000]
            )
            same(around, b"\xc5" * len(around), "memory around the buffers")
            written += found.count(b"\xee")
        shut(a, b, c, d)
    same(written > 0, True, "some of it was taken")


CASES = [
    ("a right super-packet is taken whole", taken_whole),
    ("a bad ICRC in the middle of a super-packet", bad_in_the_middle),
    ("a super-packet for two queue pairs", two_queue_pairs),
    ("a super-packet of a WRITE's packets", write),
    ("super-packets longer than the WRITE", write_past_its_end),
    ("super-packets longer than the receive", send_past_the_buffer),
    ("super-packets of unsolicited responses", answers_nobody_asked_for),
    ("a super-packet of datagrams", datagrams),
    ("super-packets cut at any length", any_size),
    ("super-packets of noise", noise),
]

if __name__ == "__main__":
    main(CASES)
