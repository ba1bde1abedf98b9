# SPDX-License-Identifier: GPL-2.0
"""Elements of lists that no byte reaches: they may be invalid, as programs that were written on
ConnectX post such ones. Each service, on the wire and on one device."""

import enums as e
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE

from oxetest import (
    QKEY,
    SIG,
    End,
    ah_to,
    connect,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    status,
)

RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
GRH = 40  # bytes before a datagram in its receive
NOWHERE = SGE(0, 1024, 0)


class Two:
    """Two connected ends, and how a message of a service goes from one to the other."""

    def __init__(self, service, shared, near):
        host = host_a if near else host_b
        self.a = End(host_a(), service)
        peer = host()
        srq = SRQ(peer.pd, SrqInitAttr(SrqAttr(16, 4, 0))) if shared else None
        self.b = End(peer, service, srq=srq)
        connect(self.a, self.b)
        self.ah = ah_to(self.a.host, self.b.host) if service == UD else None
        self.front = GRH if service == UD else 0

    def send(self, *sges, opcode=e.IBV_WR_SEND, flags=SIG):
        to = {} if self.ah is None else {"ah": (self.ah, self.b.qp.qp_num, QKEY)}
        if opcode == e.IBV_WR_RDMA_WRITE_WITH_IMM:
            to["remote"], to["imm"] = self.b.remote(4096), 7
        self.a.send(opcode, *sges, flags=flags, **to)

    def arrives(self):
        good(poll(self.a.cq))
        return good(poll(self.b.rcq))[0]

    def close(self):
        shut(self.a, self.b)


def no_bytes(two):
    """A SEND without a byte into a list without a valid element."""
    b = two.b
    b.recv(b.sge(GRH), NOWHERE) if two.front else b.recv(NOWHERE)
    two.send(two.a.sge(0))
    same(two.arrives().byte_len, two.front, "the receive's length")


def behind_the_message(two):
    """The elements that the message does not reach."""
    a, b = two.a, two.b
    wrong = b.sge(64, lkey=b.mr.lkey ^ 0x5A5A00)
    b.recv(b.sge(two.front + 16), wrong, NOWHERE, SGE(0, 2**32 - 1, 0))
    two.send(a.sge(16))
    same(two.arrives().byte_len, two.front + 16, "the receive's length")


def reached(two):
    """The first byte that goes there fails the receive."""
    a, b = two.a, two.b
    b.recv(b.sge(two.front + 16), NOWHERE)
    two.send(a.sge(17))
    want = {RC: "REM_OP_ERR"}.get(a.type, "SUCCESS")
    same(status(poll(a.cq)[0]), want, "the sender's completion")
    same(status(poll(b.rcq)[0]), "LOC_PROT_ERR", "the receive")


def with_immediate(two):
    """A WRITE with immediate data stores nothing in the receive that it takes."""
    b = two.b
    b.recv(NOWHERE)
    two.send(two.a.sge(16), opcode=e.IBV_WR_RDMA_WRITE_WITH_IMM)
    same(two.arrives().byte_len, 16, "the receive's length")


def empty_source(two):
    """The key of an element of length 0 is ignored on either side."""
    a, b = two.a, two.b
    empty = SGE(0, 0, 0x5A5A00)
    b.recv(empty, b.sge(two.front + 16), empty)
    two.send(empty, a.sge(16), empty)
    same(two.arrives().byte_len, two.front + 16, "the receive's length")


def inline_source(two):
    """Inline data comes from the process: the keys of its elements are ignored."""
    a, b = two.a, two.b
    b.recv(b.sge(two.front + 16), NOWHERE)
    two.send(a.sge(16, lkey=0x5A5A00), flags=SIG | e.IBV_SEND_INLINE)
    same(two.arrives().byte_len, two.front + 16, "the receive's length")


def cases():
    whats = [
        ("a SEND of no bytes", no_bytes),
        ("elements behind the message", behind_the_message),
        ("an element that a byte reaches", reached),
        ("WRITE with immediate data", with_immediate),
        ("elements of length 0", empty_source),
        ("inline data", inline_source),
    ]
    services = [("RC", RC, False), ("UC", UC, False), ("UD", UD, False), ("SRQ", RC, True)]
    for near in (False, True):
        for service, kind, shared in services:
            for what, function in whats:
                if function is with_immediate and kind == UD:
                    continue
                place = "one device" if near else "the wire"
                yield f"unused elements, {service}, {place}: {what}", run, function, kind, shared, near


def run(function, *how):
    two = Two(*how)
    function(two)
    two.close()


if __name__ == "__main__":
    main(cases())
