# SPDX-License-Identifier: GPL-2.0
"""Hostile packets against a live connection, with good and with bad ICRCs: dropped and counted, and
the connection works on.

The attacker sits on host B and speaks with B's address, so that every check on the sender's address
is passed.
"""

import ctypes
import os
import random
import time

import enums as e
from pyverbs.mr import MR

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
    poll,
    same,
    shut,
    until,
)

OXE = os.environ.get("LINK_TYPE", "oxe") == "oxe"
NS_B, IP_A, IP_B = os.environ.get("NS_B", "oxt-b"), os.environ["IP4_A"], os.environ["IP4_B"]
PSN_A, PSN_B = 0x100000, 0x200000  # a's and b's first send PSN

attacker = roce.Sender(NS_B, IP_B, IP_A)


class Bench:
    """A connection whose end a is attacked, with a canary beside its buffer; kept for all cases
    that must not harm it."""

    def __init__(self):
        self.a, self.b = End(host_a(), depth=200, cqe=500), End(host_b(), depth=200, cqe=500)
        connect(self.a, self.b, psn_a=PSN_A, psn_b=PSN_B)
        self.canary = MR(self.a.host.pd, 65536, 0)
        ctypes.memset(self.canary.buf, 0xC5, 65536)
        self.qpn = self.a.qp.qp_num

    def works(self):
        a, b = self.a, self.b
        for x, y in ((a, b), (b, a)):
            y.recv(y.sge(3000, 5000))
            x.send(e.IBV_WR_SEND, x.sge(3000))
            good(poll(x.cq) + poll(y.rcq))
            x.send(e.IBV_WR_RDMA_READ, x.sge(2000, 10000), remote=y.remote(20000))
            good(poll(x.cq))
        same(ctypes.string_at(self.canary.buf, 65536) == b"\xc5" * 65536, True, "the canary")


_bench = []


def bench():
    if not _bench:
        _bench.append(Bench())
    return _bench[0]


def settle():
    """Waits until no more packets come in."""
    before = now = None
    while now is None or now != before:
        before = counters(DEV_A)["rcvd_pkts"]
        time.sleep(0.1)
        now = counters(DEV_A)["rcvd_pkts"]


class Counted:
    """with Counted("name", n): meanwhile the counter of that name rises by n (or at least n); for
    names of oxe's, so not on rxe."""

    def __init__(self, name, count, at_least=False):
        self.name, self.count, self.at_least = name, count, at_least

    def __enter__(self):
        settle()
        self.before = counters(DEV_A)

    def __exit__(self, kind, *_):
        if kind is not None or not OXE:
            return
        for _ in range(300):
            settle()
            after = counters(DEV_A)
            rise = after[self.name] - self.before[self.name]
            if rise >= self.count:
                break
        changed = {n: after[n] - self.before[n] for n in after if after[n] != self.before[n]}
        same(
            rise >= self.count if self.at_least else rise,
            True if self.at_least else self.count,
            f"counter {self.name} (what rose: {changed})",
        )


def old(psn):
    """A PSN far ahead of any that the connection expects: neither the next one nor a duplicate that
    is answered."""
    return (psn + 0x300000) & 0xFFFFFF


def bad_icrc():
    t = bench()
    with Counted("rcvd_bad_icrc", 40):
        for i in range(40):
            attacker.send(roce.bth(roce.SEND_ONLY, t.qpn, PSN_B) + bytes(i * 4), good=False)
    t.works()


def truncated():
    """A packet cut at every length, its old ICRC lost: each piece is too short or fails its
    check."""
    t = bench()
    whole = (
        roce.bth(roce.WRITE_ONLY, t.qpn, PSN_B)
        + roce.reth(t.a.mr.buf, t.a.mr.rkey, 64)
        + bytes(64)
        + b"\x12\x34\x56\x78"
    )
    before = counters(DEV_A)
    for n in range(len(whole)):
        attacker.raw(whole[:n])
    for name in ("rcvd_too_short", "rcvd_bad_icrc") if OXE else ():
        until(lambda name=name: counters(DEV_A)[name] > before[name], name)
    t.works()


def truncated_signed():
    """The same with a fresh good ICRC at each length, so that the parser itself must see what is
    missing."""
    t = bench()
    for head in (
        roce.bth(roce.WRITE_ONLY, t.qpn, old(PSN_B))
        + roce.reth(t.a.mr.buf, t.a.mr.rkey, 64)
        + bytes(64),
        roce.bth(roce.READ_REQUEST, t.qpn, old(PSN_B)) + roce.reth(t.a.mr.buf, t.a.mr.rkey, 64),
        roce.bth(roce.FETCH_ADD, t.qpn, old(PSN_B))
        + roce.atomic_eth(t.a.mr.buf, t.a.mr.rkey, 1, 0),
        roce.bth(roce.ACK, t.qpn, old(PSN_A)) + roce.aeth(0x1F),
        roce.bth(roce.ATOMIC_ACK, t.qpn, old(PSN_A)) + roce.aeth(0x1F) + bytes(8),
    ):
        for n in range(len(head)):
            attacker.send(head[:n])
    settle()
    t.works()


def opcodes():
    """All 256 opcodes, with each length of rest from none to 64 in steps, at a PSN that is not
    expected."""
    t = bench()
    for opcode in range(256):
        for rest in (0, 4, 16, 28, 64):
            attacker.send(roce.bth(opcode, t.qpn, old(PSN_B)) + bytes(rest))
    settle()
    t.works()


def unknown_opcodes():
    """To a queue pair, and to the QP number of multicast."""
    t = bench()
    unknown = [0x18, 0x1F, 0x38, 0x7F, 0xFF]
    with Counted("rcvd_unknown_opcode", 2 * len(unknown), at_least=True):
        for opcode in unknown:
            for qpn in (t.qpn, 0xFFFFFF):
                attacker.send(roce.bth(opcode, qpn, PSN_B) + bytes(64))
    t.works()


def pad_underflow():
    """More pad than there is payload: the length must not run below zero."""
    t = bench()
    for psn in (PSN_B, old(PSN_B)):
        for pad in (1, 2, 3):
            for opcode, rest in (
                (roce.SEND_ONLY, b""),
                (roce.SEND_LAST, b""),
                (roce.READ_LAST, roce.aeth(0x1F)),
                (roce.ACK, roce.aeth(0x1F)),
                (roce.WRITE_MIDDLE, b""),
            ):
                attacker.send(
                    roce.bth(opcode, t.qpn, psn if opcode < 12 else old(PSN_A), pad=pad) + rest
                )
    settle()
    t.works()


def versions():
    t = bench()
    with Counted("rcvd_bad_version", 15):
        for version in range(1, 16):
            attacker.send(roce.bth(roce.SEND_ONLY, t.qpn, PSN_B, version=version) + bytes(8))
    t.works()


def partitions():
    t = bench()
    with Counted("rcvd_bad_pkey", 3):
        for pkey in (0x8001, 0x1234, 0x0000):
            attacker.send(roce.bth(roce.SEND_ONLY, t.qpn, PSN_B, pkey=pkey) + bytes(8))
    t.works()


def nobody():
    """Queue pairs that do not exist, the special ones included."""
    t = bench()
    qpns = [n for n in (0, 2, 3, 0x700000, 0xFFFFFE, 0xFFFFFF) if n not in (t.qpn, t.b.qp.qp_num)]
    with Counted("rcvd_no_qp", 1, at_least=True):
        for qpn in qpns + [1]:
            attacker.send(roce.bth(roce.SEND_ONLY, qpn, PSN_B) + bytes(32))
    t.works()


def wrong_service():
    """UC, RD, UD and XRC opcodes for an RC queue pair."""
    t = bench()
    with Counted("rcvd_wrong_service", 1, at_least=True):
        attacker.send(roce.bth(roce.UD_SEND_ONLY, t.qpn, PSN_B) + roce.deth(QKEY, 5) + bytes(32))
        attacker.send(roce.bth(0x20 | roce.SEND_ONLY, t.qpn, PSN_B) + bytes(32))
    t.works()


def stranger():
    """A sender whose address is not the connection's: dropped, however right the rest."""
    t = bench()
    attacker.source, kept = "10.77.0.99", attacker.source
    try:
        t.a.recv(t.a.sge(100))
        with Counted("rcvd_wrong_address", 1, at_least=True):
            attacker.send(roce.bth(roce.SEND_ONLY, t.qpn, PSN_B + 0x50) + bytes(32))
            attacker.send(roce.bth(roce.ACK, t.qpn, PSN_A) + roce.aeth(0x64))
    finally:
        attacker.source = kept
    # The buffer posted above serves the next send.
    t.b.send(e.IBV_WR_SEND, t.b.sge(60))
    (wc,) = good(poll(t.a.rcq))
    same(wc.byte_len, 60, "length of what came")
    good(poll(t.b.cq))
    t.works()


def noise():
    """Random bytes; random headers with good ICRCs, most of them for the connection, none at a PSN
    it expects."""
    t = bench()
    rng = random.Random(4791)
    for _ in range(300):
        attacker.raw(rng.randbytes(rng.randrange(0, 200)))
    for _ in range(700):
        head = roce.bth(
            rng.randrange(256),
            rng.choice((t.qpn, t.qpn, rng.randrange(1 << 24))),
            old(rng.randrange(0x80000) + PSN_B),
            rng.randrange(4),
            rng.choice((0, 0, 0, 5)),
            rng.choice((0xFFFF, 0xFFFF, 0x7FFF)),
            rng.randrange(2),
            rng.randrange(2),
        )
        attacker.send(head + rng.randbytes(rng.randrange(0, 100)))
    settle()
    t.works()


def udp_length_lies():
    t = bench()
    for length in (0, 7, 8, 9, 20, 24, 1000, 65535):
        attacker.raw(roce.bth(roce.SEND_ONLY, t.qpn, PSN_B) + bytes(40), length=length)
    settle()
    t.works()


CASES = [
    ("bad ICRCs", bad_icrc),
    ("cut at every length", truncated),
    ("cut at every length, ICRC good", truncated_signed),
    ("all 256 opcodes", opcodes),
    ("unknown opcodes", unknown_opcodes),
    ("more pad than payload", pad_underflow),
    ("wrong versions", versions),
    ("wrong P_Keys", partitions),
    ("queue pairs that do not exist", nobody),
    ("opcodes of another service", wrong_service),
    ("a stranger's packets", stranger),
    ("noise", noise),
    ("UDP lengths that lie", udp_length_lies),
]

if __name__ == "__main__":
    main(CASES)
    if _bench:
        shut(_bench[0].a, _bench[0].b)
