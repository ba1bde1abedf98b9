# SPDX-License-Identifier: GPL-2.0
"""Trace events of connections, as tracefs shows them."""

import collections
import os
import subprocess

import enums as e

from odp import ODP, Memory
from oxetest import (
    DEV_A,
    DEV_B,
    SIG,
    End,
    connect,
    counters,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    pair,
    poll,
    same,
    shut,
    status,
    until,
)
from tracing import Trace

WIRE = DEV_A != DEV_B
NOBODY = 65534


def loses(everything):
    """Whether host A's packets are lost on the wire."""
    where = ["ip", "netns", "exec", os.environ["NS_A"], "tc", "qdisc"]
    what = ["replace", "dev", os.environ["VETH_A"], "root"]
    subprocess.run(
        [*where, *what, *(["netem", "loss", "100%"] if everything else ["pfifo_fast"])], check=True
    )


def message():
    """A SEND, from its posting to both completions, in the order in which it goes."""
    with Trace() as trace:
        a, b = pair(psn_a=0x100)
        b.recv(b.sge(64), wr_id=7)
        a.send(e.IBV_WR_SEND, a.sge(64), wr_id=9, flags=SIG)
        good(poll(a.cq) + poll(b.rcq))
        psn = "psn 256 packets 1 len 64"
        trace.has(a, "post", "SEND wr_id 0x9 len 64")
        trace.has(a, "transmit", f"RC_SEND_ONLY {psn} to qp {b.qp.qp_num} ack_req")
        trace.has(b, "receive", f"RC_SEND_ONLY {psn}")
        trace.has(b, "completion", "RECV SUCCESS wr_id 0x7 len 64")
        trace.has(b, "transmit", "RC_ACK psn 256")
        trace.has(a, "receive", "RC_ACK psn 256")
        trace.has(a, "ack", "ack psn 257 acked 1 in_flight 0 cwnd 33 ssthresh 16384")
        trace.has(a, "completion", "SEND SUCCESS wr_id 0x9 len 64")
        order = [name for name in trace.names(a) if name != "qp_state"]
        # The first acknowledgement widens the window.
        wanted = ["post", "transmit", "receive", "ack", "window", "completion"]
        same(order, wanted, "the requester")
        states = [each.text.strip() for each in trace.events(a) if each.name == "qp_state"]
        same(states, ["RESET -> INIT", "INIT -> RTR", "RTR -> RTS"], "states of the requester")
        packets = [each for each in trace.events() if each.name in ("transmit", "receive")]
        same({" loopback" in each.text for each in packets}, {not WIRE}, "whether it is loopback")
        shut(a, b)


def not_ready():
    """A SEND without a receive: an RNR NAK at both ends, and a wait."""
    with Trace() as trace:
        a, b = pair(rnr=1)
        a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
        same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
        trace.has(b, "drop", "sent_rnr_err")
        trace.has(b, "nak", "sent rnr psn")
        trace.has(a, "nak", "received rnr psn")
        trace.has(a, "wait", "rnr_nak psn")
        trace.has(a, "completion", "SEND RNR_RETRY_EXC_ERR")
        trace.has(a, "qp_state", "RTS -> ERR request: RNR_RETRY_EXC_ERR")
        shut(a, b)


def refused():
    """A WRITE with a wrong key: each end's state changes, with its reason."""
    with Trace() as trace:
        a, b = pair()
        address, rkey = b.remote()
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=(address, rkey ^ 0x100), flags=SIG)
        same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", "the status")
        trace.has(b, "drop", "refused_request")
        trace.has(b, "nak", "sent remote_access psn")
        trace.has(b, "qp_state", "RTS -> ERR responder: refused an access of the peer")
        trace.has(a, "nak", "received remote_access psn")
        trace.has(a, "completion", "RDMA_WRITE REM_ACCESS_ERR")
        trace.has(a, "qp_state", "RTS -> ERR request: REM_ACCESS_ERR")
        shut(a, b)


def gone():
    """A peer that is gone: the timeout sends again, then the request fails."""
    with Trace() as trace:
        a, b = pair(timeout=8, retry=1)
        b.qp.close()
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
        same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", "the status")
        trace.has(a, "retransmit", "timeout psn")
        trace.has(a, "window", "timeout psn")
        trace.has(a, "qp_state", "RTS -> ERR request: RETRY_EXC_ERR")
        shut(a, b)


def missed():
    """A packet that is lost before another: the responder asks for it, and the window shrinks."""
    with Trace() as trace:
        a, b = pair(timeout=20)
        loses(True)
        try:
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
            until(lambda: "transmit" in trace.names(a), "the packet")
        finally:
            loses(False)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
        good(poll(a.cq, 2))
        trace.has(b, "drop", "out_of_seq_request")
        trace.has(b, "nak", "sent psn_sequence psn")
        trace.has(a, "retransmit", "sequence_nak psn")
        trace.has(a, "window", "cwnd 22 ssthresh 22")
        shut(a, b)


def two_reads(a, b, trace, at):
    """READs of B, of bytes 1 and of bytes 2, the second one to this place: the response to the
    first one is lost."""
    for n in (1, 2):
        a.mr.write(bytes([n] * 8), 8, 64 * n)
    loses(True)
    try:
        b.send(e.IBV_WR_RDMA_READ, b.sge(8), remote=a.remote(64), flags=SIG)
        until(lambda: "transmit" in trace.names(a), "the response")
    finally:
        loses(False)
    b.send(e.IBV_WR_RDMA_READ, b.sge(8, at), remote=a.remote(128), flags=SIG)
    good(poll(b.cq, 2))
    same(b.mr.read(8, at), bytes([2] * 8), "the later READ")


def answer_missed():
    """A READ response that is lost before another one, which is kept: the lost one is asked for."""
    with Trace() as trace:
        a, b = pair(timeout=20)
        two_reads(a, b, trace, 64)
        same(b.mr.read(8, 0), bytes([1] * 8), "the earlier READ")
        trace.has(b, "retransmit", "response_gap psn")
        trace.has(b, "window", "response_gap psn")
        assert "drop" not in trace.names(b), "the other one was dropped"
        shut(a, b)


def one_place():
    """Both READs into the same memory: the later one has the last word."""
    with Trace() as trace:
        a, b = pair(timeout=20)
        two_reads(a, b, trace, 0)
        shut(a, b)


def drops():
    """Every packet that counters count as dropped is traced by its counter's name."""
    with Trace() as trace:
        devices = {DEV_A, DEV_B}
        before = {device: counters(device) for device in devices}
        a, b = pair(timeout=8, retry=2)
        b.to_state(e.IBV_QPS_RESET)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
        same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", "the status")
        c, d = pair(timeout=8, retry=2)
        number = d.qp.qp_num
        d.qp.close()
        c.send(e.IBV_WR_SEND, c.sge(8), flags=SIG)
        same(status(poll(c.cq)[0]), "RETRY_EXC_ERR", "the status")
        f, g = End(host_a()), End(host_b())
        connect(f, g, psn_a=5, psn_b=6)
        g.recv(g.sge(8))
        for _ in range(3):
            f.send(e.IBV_WR_SEND, f.sge(8), flags=SIG)
        same(status(poll(f.cq)[0]), "SUCCESS", "the first")
        until(lambda: "wait" in trace.names(f), "an RNR NAK")
        for _ in range(2):
            g.recv(g.sge(8))
        good(poll(f.cq, 2))
        shut(a, c, f, b, d, g)
        traced = collections.Counter(
            each.text for each in trace.events() if each.name == "drop"
        )
        unknown = [each for each in trace.events() if each.text == "rcvd_no_qp"]
        same({each.qpn for each in unknown}, {number}, "the QP that is not there")

        def counted():
            moved = collections.Counter()
            for device in devices:
                now = counters(device)
                for name in traced:
                    moved[name] += now[name] - before[device][name]
            return moved

        until(lambda: counted() == traced, f"counters as in the trace: {traced}")
        assert {"rcvd_no_qp", "rcvd_qp_state", "sent_rnr_err"} <= set(traced), traced


def paging():
    """A page that is not present: the fault, by its address."""
    with Trace() as trace:
        a, b = pair()
        memory = Memory(b.host, access=ODP)
        memory.drop()
        at, _ = memory.remote(4096)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=memory.remote(4096), flags=SIG)
        good(poll(a.cq))
        faults = [each.text for each in trace.events() if each.name == "page_fault"]
        assert any(f"address {at:#x}" in each and "write: present now" in each for each in faults)
        memory.mr.close()
        shut(a, b)


def over():
    """After its reader has gone nothing is traced, and a filter by QP keeps others' events out."""
    with Trace() as trace:
        a, b = pair()
        trace.write("events/oxe/filter", f"qpn == {a.qp.qp_num}")
        trace.write("trace", "")
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
        good(poll(a.cq))
        same({each.qpn for each in trace.events()}, {a.qp.qp_num}, "the QPs")
        trace.write("events/oxe/enable", "0")
        trace.write("trace", "")
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
        good(poll(a.cq))
        same(trace.events(), [], "events")
        shut(a, b)


def formats():
    """The formats are for programs as well: they have numbers and arrays."""
    where = f"{os.environ['TRACING']}/events/oxe"
    for event in sorted(os.listdir(where)):
        if not event.startswith("oxe_"):
            continue
        with open(f"{where}/{event}/format", encoding="ascii") as file:
            text = file.read()
        assert "OXE_" not in text, text
        same("char netdev[16]" in text, event != "oxe_page_fault", f"the netdev of {event}")
        same("char counter[32]" in text, event == "oxe_drop", f"the counter of {event}")


def root_alone():
    """A process without privileges reads no trace."""

    def refused(path):
        pid = os.fork()
        if not pid:
            os.setuid(NOBODY)
            os._exit(errno_of(open, path, encoding="ascii"))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    with Trace() as trace:
        assert refused(f"{trace.at}/trace"), "it was read"


main(
    [
        (f"{'wire' if WIRE else 'loopback'}: {name}", function)
        for name, function in [
            ("a message, from its posting to its completions", message),
            ("a receiver that is not ready", not_ready),
            ("a wrong key", refused),
            ("a peer that is gone", gone),
            *([("a packet that is lost", missed)] if WIRE else []),
            *([("a READ response that is lost", answer_missed)] if WIRE else []),
            *([("it is lost, and two READs have one place", one_place)] if WIRE else []),
            ("drops are traced by their counter", drops),
            ("a page fault", paging),
            ("filters, and the end of tracing", over),
            ("the events' formats", formats),
            ("root alone", root_alone),
        ]
    ]
)
