# SPDX-License-Identifier: GPL-2.0
"""Packets of wire.py's attacker that a queue pair takes for its peer's: they may break its
connection, but touch no other memory, and another connection works on. What the queue pair drops is
counted under its cause alone.
"""

import ctypes
import random
import time

import enums as e
from pyverbs.mr import MR

import roce
from oxetest import (
    ALL_ACCESS,
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
from placement import FLUSHABLE
from wire import OXE, PSN_A, PSN_B, Counted, attacker, bench, settle


def victim():
    """A connection of its own for what may rightly break one, with an unread receive buffer and a
    canary around it."""
    a, b = End(host_a()), End(host_b())
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B, timeout=10, retry=3)
    ctypes.memset(a.mr.buf, 0xC5, a.mr.length)
    return a, b


def expected_psn(opcode):
    """One opcode at the very PSN that is expected, with lengths from none to much: the connection
    may break, nothing else."""
    rng = random.Random(opcode)
    a, b = victim()
    a.recv(a.sge(100, 1000), wr_id=1)
    for rest in (0, 3, 4, 16, 28, 40, 1024 + 16, 3000 if opcode % 2 else 1400):
        attacker.send(
            roce.bth(opcode, a.qp.qp_num, PSN_B, pad=rng.randrange(4)) + bytes(min(rest, 1440))
        )
    memory = ctypes.string_at(a.mr.buf, a.mr.length)
    same(
        memory[:1000] == b"\xc5" * 1000 and memory[1100:] == b"\xc5" * (a.mr.length - 1100),
        True,
        "memory around the buffer",
    )
    shut(a, b)


def expected_psn_all():
    for opcode in list(range(0, 32)) + [0x38, 0x64, 0x65, 0x7F, 0x81, 0xA0, 0xC0, 0xFF]:
        expected_psn(opcode)
    bench().works()


def write_out_of_bounds():
    """Requests for memory that the key does not cover, at the expected PSN, by every arithmetic
    trick of range checks."""
    for address, length in (
        (-16, 64),
        (65536 - 8, 64),
        (65536, 1),
        (0, 0xFFFFFFFF),
        (0, 0x80000001),
        (2**64 - 4096, 8192),
        (-(2**63), 64),
        (0, 65537),
    ):
        for opcode in (roce.WRITE_ONLY, roce.WRITE_FIRST, roce.READ_REQUEST):
            a, b = victim()
            guard = MR(a.host.pd, 4096, ALL_ACCESS)
            ctypes.memset(guard.buf, 0xC5, 4096)
            body = b"\xee" * (
                0 if opcode == roce.READ_REQUEST else 64 if opcode == roce.WRITE_ONLY else 1024
            )
            attacker.send(
                roce.bth(opcode, a.qp.qp_num, PSN_B)
                + roce.reth(a.mr.buf + address, a.mr.rkey, length)
                + body
            )
            time.sleep(0.01)
            same(
                ctypes.string_at(a.mr.buf, 65536) == b"\xc5" * 65536,
                True,
                f"memory after {opcode} to {address:#x} + {length:#x}",
            )
            shut(a, b)
    bench().works()


def write_longer_than_said():
    """The payload of a WRITE does not agree with the length in its RETH."""
    for said, sent, opcode in (
        (10, 64, roce.WRITE_ONLY),
        (64, 8, roce.WRITE_ONLY),
        (0, 64, roce.WRITE_ONLY),
        (4096, 512, roce.WRITE_FIRST),
        (100, 1024, roce.WRITE_FIRST),
        (2**31 + 4, 1024, roce.WRITE_FIRST),
    ):
        a, b = victim()
        attacker.send(
            roce.bth(opcode, a.qp.qp_num, PSN_B)
            + roce.reth(a.mr.buf + 100, a.mr.rkey, said)
            + b"\xee" * sent
        )
        time.sleep(0.02)
        memory = ctypes.string_at(a.mr.buf, 65536)
        same(
            memory[:100] + memory[100 + said :],
            b"\xc5" * (65536 - min(said, 65436)),
            f"memory outside {said} bytes",
        )
        shut(a, b)


def atomic_writes_of_another_length():
    """An ATOMIC WRITE has eight bytes and says so. Without payload it must not store bytes that it
    did not bring."""
    for said, sent in (
        (0, 0),
        (8, 0),
        (8, 4),
        (8, 7),
        (8, 12),
        (8, 1024),
        (0, 8),
        (16, 8),
        (16, 16),
    ):
        a, b = victim()
        attacker.send(
            roce.bth(roce.ATOMIC_WRITE, a.qp.qp_num, PSN_B, pad=-sent % 4)
            + roce.reth(a.mr.buf + 800, a.mr.rkey, said)
            + b"\xee" * (sent + -sent % 4)
        )
        until(lambda a=a: a.state() == e.IBV_QPS_ERR, "the refusal")
        same(
            ctypes.string_at(a.mr.buf, 65536) == b"\xc5" * 65536,
            True,
            f"memory after {sent} bytes that are said to be {said}",
        )
        shut(a, b)
    bench().works()


def atomic_write_twice():
    """A duplicate is answered and not carried out again: another store may have followed."""
    a, b = victim()
    store = (
        roce.bth(roce.ATOMIC_WRITE, a.qp.qp_num, PSN_B)
        + roce.reth(a.mr.buf + 800, a.mr.rkey, 8)
        + b"\xee" * 8
    )
    word = ctypes.c_uint64.from_address(a.mr.buf + 800)
    attacker.send(store)
    until(lambda: word.value == 0xEEEEEEEEEEEEEEEE, "the first")
    word.value = 5
    sent = counters(DEV_A)["sent_pkts"] if OXE else 0
    for _ in range(5):
        attacker.send(store)
    settle()
    same(word.value, 5, "the word")
    if OXE:
        same(counters(DEV_A)["sent_pkts"] - sent, 5, "responses")
    same(a.state(), e.IBV_QPS_RTS, "state")
    shut(a, b)


def read_again_elsewhere():
    """A READ that was answered comes again, of a range that the key does not cover, or that wraps:
    it is no part of what was answered, so it is dropped, and the connection goes on."""
    a, b = victim()
    b.send(e.IBV_WR_RDMA_READ, b.sge(8), remote=a.remote())
    good(poll(b.cq))
    sent = counters(DEV_A)["sent_pkts"] if OXE else 0
    ranges = (
        (2**64 - 8, 16),
        (2**64 - 4096, 8192),
        (a.mr.buf, 2**32 - 1),
        (a.mr.buf - 8, 16),
        (a.mr.buf + a.mr.length - 8, 16),
        (a.mr.buf + a.mr.length, 1),
    )
    request = roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B)
    with Counted("unknown_duplicate", len(ranges)):
        for address, length in ranges:
            attacker.send(request + roce.reth(address, a.mr.rkey, length))
    settle()
    if OXE:
        same(counters(DEV_A)["sent_pkts"] - sent, 0, "responses")
    b.send(e.IBV_WR_RDMA_READ, b.sge(8), remote=a.remote())
    good(poll(b.cq))
    shut(a, b)


def flushes_that_are_none():
    """A payload, reserved values, ranges beyond the key: refused."""
    for placement, level, at, length, payload in (
        (1, 0, 0, 8, 4),
        (0, 0, 0, 8, 0),
        (9, 0, 0, 8, 0),
        (1, 3, 0, 8, 0),
        (1, 0, 65529, 8, 0),
        (1, 0, -1, 8, 0),
        (1, 0, 8, 0xFFFFFFFF, 0),
    ):
        a, b = End(host_a(), access=FLUSHABLE), End(host_b())
        connect(a, b, psn_a=PSN_A, psn_b=PSN_B, timeout=10, retry=3)
        attacker.send(
            roce.bth(roce.FLUSH, a.qp.qp_num, PSN_B)
            + roce.feth(placement, level)
            + roce.reth(a.mr.buf + at, a.mr.rkey, length)
            + bytes(payload)
        )
        if not payload:  # a packet with one is no packet of this opcode, and dropped
            until(lambda a=a: a.state() == e.IBV_QPS_ERR, "the refusal")
        settle()
        shut(a, b)
    bench().works()


def responses_out_of_the_blue():
    """Read responses, atomic answers and ACKs of all 256 syndromes, without a request."""
    a, b = victim()
    for opcode in (
        roce.READ_FIRST,
        roce.READ_MIDDLE,
        roce.READ_LAST,
        roce.READ_ONLY,
        roce.ATOMIC_ACK,
    ):
        for n in (0, 8, 1024, 1400):
            attacker.send(roce.bth(opcode, a.qp.qp_num, PSN_A) + roce.aeth(0x1F) + b"\xee" * n)
    for syndrome in range(256):
        attacker.send(
            roce.bth(roce.ACK, a.qp.qp_num, PSN_A + syndrome % 5) + roce.aeth(syndrome, syndrome)
        )
    settle()
    same(ctypes.string_at(a.mr.buf, 65536) == b"\xc5" * 65536, True, "memory")
    shut(a, b)
    bench().works()


def response_past_the_sink():
    """Answers to a read that are longer than what was asked for: the bytes behind the sink stay."""
    for opcode, n in (
        (roce.READ_ONLY, 1024),
        (roce.READ_FIRST, 1024),
        (roce.READ_LAST, 1024),
        (roce.READ_MIDDLE, 1024),
        (roce.READ_ONLY, 0),
        (roce.ATOMIC_ACK, 8),
    ):
        a, b = victim()
        b.to_state(e.IBV_QPS_ERR)  # the true peer keeps silent
        a.send(e.IBV_WR_RDMA_READ, a.sge(100, 1000), remote=b.remote())
        for k in range(4):
            head = b"" if opcode == roce.READ_MIDDLE else roce.aeth(0x1F, 1)
            attacker.send(roce.bth(opcode, a.qp.qp_num, PSN_A + k) + head + b"\xee" * n)
        settle()
        memory = ctypes.string_at(a.mr.buf, 65536)
        same(
            memory[:1000] == b"\xc5" * 1000 and memory[1100:] == b"\xc5" * (65536 - 1100),
            True,
            "memory around the sink",
        )
        poll(a.cq)
        shut(a, b)


def acks_for_the_future():
    """An ACK for a PSN never sent completes nothing."""
    a, b = victim()
    b.qp.close()
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(100), wr_id=3, remote=(0x1000, 1))
    for psn in (PSN_A + 1, PSN_A + 1000, PSN_A - 1, PSN_A + 0x7FFFFF):
        attacker.send(roce.bth(roce.ACK, a.qp.qp_num, psn) + roce.aeth(0x1F, 1))
    (wc,) = poll(a.cq)
    same((wc.wr_id, wc.status), (3, e.IBV_WC_RETRY_EXC_ERR), "completion")
    shut(a, b)


def datagrams():
    """At a UD queue pair: short ones, wrong keys, more than the buffer holds, and the multicast
    number."""
    a = End(host_a(), e.IBV_QPT_UD)
    a.to_init()
    a.to_rtr(None, 0)
    ctypes.memset(a.mr.buf, 0xC5, a.mr.length)
    a.recv(a.sge(140, 1000), wr_id=1)
    qpn = a.qp.qp_num
    for body in (
        b"",
        b"\0" * 7,
        roce.deth(QKEY + 1, 5) + bytes(40),
        roce.deth(QKEY, 5) + b"\xee" * 400,
    ):
        attacker.send(roce.bth(roce.UD_SEND_ONLY, qpn, 0) + body)
        attacker.send(roce.bth(roce.UD_SEND_ONLY_IMM, qpn, 0) + body)
    attacker.send(roce.bth(roce.UD_SEND_ONLY, 0xFFFFFF, 0) + roce.deth(QKEY, 5) + bytes(40))
    settle()
    memory = ctypes.string_at(a.mr.buf, 65536)
    same(
        memory[:1000] == b"\xc5" * 1000 and memory[1140:] == b"\xc5" * (65536 - 1140),
        True,
        "memory around the buffer",
    )
    shut(a)
    bench().works()


class OnlyCause(Counted):
    """with OnlyCause("name"): one packet is dropped meanwhile, under this counter and no other.
    What the queue pair sends meanwhile, also again as time passes, is not compared."""

    SENT = ("_pkts", "_bytes", "retransmits", "ack_timeouts")

    def __init__(self, name):
        super().__init__(name, 1)

    def __exit__(self, kind, *rest):
        super().__exit__(kind, *rest)
        if kind is None and OXE:
            after = counters(DEV_A)
            same(
                {
                    n: after[n] - self.before[n]
                    for n in after
                    if after[n] != self.before[n] and not n.endswith(self.SENT)
                },
                {self.name: 1},
                "what was counted",
            )


def datagram_causes():
    """No receive is posted: no RNR NAK is sent, so none is counted. One too short for the datagram.
    A congestion notification."""
    a = End(host_a(), e.IBV_QPT_UD)
    a.to_init()
    a.to_rtr(None, 0)
    datagram = roce.bth(roce.UD_SEND_ONLY, a.qp.qp_num, 0) + roce.deth(QKEY, 5)
    with OnlyCause("out_of_buffer"):
        attacker.send(datagram + bytes(40))
    a.recv(a.sge(60))
    with OnlyCause("rcvd_longer_than_buffer"):
        attacker.send(datagram + bytes(24))
    with OnlyCause("rp_cnp_ignored"):
        attacker.send(roce.bth(roce.CNP, a.qp.qp_num, 0) + bytes(16))
    attacker.send(datagram + bytes(20))
    good(poll(a.rcq))
    shut(a)


def request_causes():
    """To a queue pair that has no peer yet; a congestion notification; a READ that is repeated when
    its region is gone."""
    a = End(host_a())
    a.to_init()
    with OnlyCause("rcvd_qp_state"):
        attacker.send(roce.bth(roce.SEND_ONLY, a.qp.qp_num, PSN_B) + bytes(8))
    shut(a)
    a, b = victim()
    with OnlyCause("rp_cnp_ignored"):
        attacker.send(roce.bth(roce.CNP, a.qp.qp_num, 0) + bytes(16))
    b.send(e.IBV_WR_RDMA_READ, b.sge(100), remote=a.remote())
    good(poll(b.cq))
    address, rkey = a.remote()
    a.mr.close()
    with OnlyCause("duplicate_read_denied"):
        attacker.send(
            roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B) + roce.reth(address, rkey, 100)
        )
    same(a.state(), e.IBV_QPS_RTS, "state")
    shut(a, b)


def response_causes():
    """A NAK that came twice; a right READ response whose place is gone."""
    a, b = End(host_a()), End(host_b())
    connect(
        a, b, psn_a=PSN_A, psn_b=PSN_B, timeout=0
    )  # nothing happens by itself, however long a packet takes
    b.to_state(e.IBV_QPS_ERR)  # the true peer keeps silent
    a.send(e.IBV_WR_RDMA_READ, a.sge(100), remote=b.remote())
    nak = roce.bth(roce.ACK, a.qp.qp_num, PSN_A) + roce.aeth(0x60)  # PSN sequence error
    attacker.send(nak)
    with OnlyCause("duplicate_nak"):
        attacker.send(nak)
    a.mr.close()
    a.mr = None
    with OnlyCause("response_place_err"):
        attacker.send(
            roce.bth(roce.READ_ONLY, a.qp.qp_num, PSN_A) + roce.aeth(0x1F, 1) + bytes(100)
        )
    (wc,) = poll(a.cq)
    same(wc.status, e.IBV_WC_LOC_PROT_ERR, "status")
    shut(a, b)


CASES = [
    ("every opcode at the expected PSN", expected_psn_all),
    ("memory beyond the key", write_out_of_bounds),
    ("a WRITE longer or shorter than it says", write_longer_than_said),
    ("ATOMIC WRITEs of another length", atomic_writes_of_another_length),
    ("an ATOMIC WRITE that comes twice", atomic_write_twice),
    ("a READ that comes again, of another range", read_again_elsewhere),
    ("FLUSHes that are none", flushes_that_are_none),
    ("responses nobody asked for", responses_out_of_the_blue),
    ("read responses past the sink", response_past_the_sink),
    ("ACKs for the future", acks_for_the_future),
    ("datagrams", datagrams),
    ("causes of dropped datagrams", datagram_causes),
    ("causes of dropped requests", request_causes),
    ("causes of dropped responses", response_causes),
]

if __name__ == "__main__":
    beside = bench()  # from the beginning, so that it is there while the others are attacked
    main(CASES)
    shut(beside.a, beside.b)
