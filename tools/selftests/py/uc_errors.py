# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections: messages that must get lost without harm to the next one, and errors at
either end."""

import errno

import enums as e

import roce
from oxetest import (
    LOCAL,
    End,
    connect,
    counters,
    errno_of,
    good,
    host_a,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    status,
    until,
)
from uc import BIG, IP_A, IP_B, NS_A, ONE, PSN_A, Dropped, content, next_one, pair


def without_a_receive(opts):
    a, b = pair(**opts)
    with Dropped(b, "out_of_buffer"):
        a.send(e.IBV_WR_SEND, a.sge(5000))
        a.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, a.sge(5000), remote=b.remote(0), imm=1)
        good(poll(a.cq, 2))
    none_pending(b.rcq)
    next_one(a, b)
    shut(a, b)


def too_short(opts):
    """The receive stays for the next message."""
    a, b = pair(**opts)
    b.recv(b.sge(4000, 10000), wr_id=77)
    with Dropped(b, "rcvd_longer_than_buffer"):
        a.send(e.IBV_WR_SEND, a.sge(4001))
        good(poll(a.cq))
    none_pending(b.rcq)
    next_one(a, b, receives=0)
    shut(a, b)


def wrong_key(opts):
    a, b = pair(**opts)
    want = content(b)
    address, key = b.remote(0)
    b.recv(b.sge(4000, 10000), wr_id=77)
    for remote in ((address, key ^ 0x100), (address + BIG - 10, key), (address - 1, key)):
        for opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM):
            with Dropped(b, "refused_request"):
                a.send(opcode, a.sge(5000), remote=remote, imm=1)
                good(poll(a.cq))
    same(content(b) == want, True, "memory")
    none_pending(b.rcq)
    next_one(a, b, receives=0)
    shut(a, b)


def not_permitted():
    """The region permits writes, the queue pair does not."""
    a, b = (End(host, e.IBV_QPT_UC, size=BIG) for host in (host_a(), host_b()))
    a.access = b.access = LOCAL
    connect(a, b)
    with Dropped(b, "refused_request"):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(10), remote=b.remote(0))
        good(poll(a.cq))
    next_one(a, b)
    shut(a, b)


def lost_packets():
    """Packets by hand, in the name of host A: a message with a gap, one without its end, an end
    without a beginning, a beginning that comes twice."""
    b = End(host_b(), e.IBV_QPT_UC, size=BIG)
    peer = host_a()
    b.to_init()
    b.to_rtr(peer.gid_value(), 99, psn=1000)
    b.to_rts()
    attacker = roce.Sender(NS_A, IP_A, IP_B)
    uc, full = 0x20, b"x" * 1024
    send = lambda opcode, psn, data: attacker.send(
        roce.bth(uc | opcode, b.qp.qp_num, psn, ack=0) + data
    )
    b.recv(b.sge(5000), wr_id=1)
    b.recv(b.sge(5000, 5000), wr_id=2)
    b.recv(b.sge(5000, 10000), wr_id=3)
    with Dropped(b, "out_of_seq_request"):
        send(roce.SEND_FIRST, 1000, full)
        send(roce.SEND_LAST, 1002, b"lost")
    with Dropped(b, "out_of_seq_request"):
        send(roce.SEND_LAST, 1003, b"lost")
    none_pending(b.rcq)
    send(roce.SEND_FIRST, 1004, full)
    send(roce.SEND_MIDDLE, 1005, full)
    send(roce.SEND_ONLY, 1006, b"good")
    (wc,) = good(poll(b.rcq))
    same((wc.wr_id, wc.byte_len, content(b, 0, 4)), (1, 4, b"good"), "the whole message")
    with Dropped(b, "duplicate_request"):
        send(roce.SEND_ONLY, 1006, b"good")
    send(roce.SEND_ONLY, 1000000, b"next")
    (wc,) = good(poll(b.rcq))
    same((wc.wr_id, content(b, 5000, 4)), (2, b"next"), "the message after many were lost")
    with Dropped(b, "rcvd_wrong_service"):
        attacker.send(roce.bth(roce.SEND_ONLY, b.qp.qp_num, 1000001) + b"good")
    with Dropped(b, "refused_request"):
        send(roce.SEND_FIRST, 1000001, full[:1000])
    send(roce.SEND_ONLY, 1000002, b"last")
    (wc,) = good(poll(b.rcq))
    same((wc.wr_id, content(b, 10000, 4)), (3, b"last"), "the last message")
    none_pending(b.rcq)
    shut(b)


def to_rts(end):
    """From SQE back to RTS."""
    same(end.state(), e.IBV_QPS_SQE, "state")
    end.to_state(e.IBV_QPS_RTS)


def failing_sends(opts):
    """IBTA 10.3.1.6: a send that fails takes the send queue to SQE; the receive queue works on."""
    a, b = pair(**opts)
    for sge in (a.sge(5000, lkey=a.mr.lkey ^ 0x100), a.sge(5000, BIG - 100)):
        b.recv(b.sge(8000), wr_id=1)
        a.send(e.IBV_WR_SEND, a.sge(10), wr_id=1)
        a.send(e.IBV_WR_SEND, sge, wr_id=2)
        a.send(e.IBV_WR_SEND, a.sge(10), wr_id=3)
        got = [(wc.wr_id, status(wc)) for wc in poll(a.cq, 3)]
        same(got, [(1, "SUCCESS"), (2, "LOC_PROT_ERR"), (3, "WR_FLUSH_ERR")], "completions")
        good(poll(b.rcq))
        next_one(b, a)
        to_rts(a)
        next_one(a, b)
    shut(a, b)


def other_operations():
    """IBTA 9.2, Table 38: UC has no READs and atomics."""
    a, b = pair()
    for opcode in (e.IBV_WR_RDMA_READ, e.IBV_WR_ATOMIC_FETCH_AND_ADD):
        args = {"atomic": (1, 0)} if opcode != e.IBV_WR_RDMA_READ else {}
        error = errno_of(a.send, opcode, a.sge(8), remote=b.remote(0), **args)
        if error:
            same(error in (errno.EINVAL, errno.EOPNOTSUPP), True, f"the library's errno {error}")
            continue
        same(status(poll(a.cq)[0]), "LOC_QP_OP_ERR", "completion")
        to_rts(a)
    next_one(a, b)
    shut(a, b)


def failing_receive(opts):
    """A receive whose memory is not registered is an error of its queue pair; the sender does not
    notice."""
    a, b = pair(**opts)
    b.recv(b.sge(100, lkey=b.mr.lkey ^ 0x100), wr_id=1)
    b.recv(b.sge(100), wr_id=2)
    a.send(e.IBV_WR_SEND, a.sge(10))
    good(poll(a.cq))
    got = [(wc.wr_id, status(wc)) for wc in poll(b.rcq, 2)]
    same(got, [(1, "LOC_PROT_ERR"), (2, "WR_FLUSH_ERR")], "completions")
    same((b.state(), a.state()), (e.IBV_QPS_ERR, e.IBV_QPS_RTS), "states")
    with Dropped(b, "rcvd_qp_state"):
        a.send(e.IBV_WR_SEND, a.sge(10))
        good(poll(a.cq))
    shut(a, b)


def half_a_message():
    """A receive that a message has taken is flushed first, once; after a reset the queue pair works
    as new."""
    a, b = pair()
    peer = roce.Sender(NS_A, IP_A, IP_B)
    b.recv(b.sge(5000), wr_id=1)
    b.recv(b.sge(5000), wr_id=2)
    before = counters(b.host.name)["rcvd_pkts"]
    peer.send(roce.bth(0x20 | roce.SEND_FIRST, b.qp.qp_num, PSN_A, ack=0) + b"x" * 1024)
    until(lambda: counters(b.host.name)["rcvd_pkts"] > before, "the packet")
    b.to_state(e.IBV_QPS_ERR)
    got = [(wc.wr_id, status(wc)) for wc in poll(b.rcq, 2)]
    same(got, [(1, "WR_FLUSH_ERR"), (2, "WR_FLUSH_ERR")], "completions")
    none_pending(b.rcq)
    for end in (a, b):
        end.to_state(e.IBV_QPS_RESET)
    connect(a, b)
    next_one(a, b)
    shut(a, b)


CASES = [
    ("messages without a receive", without_a_receive, {}),
    ("messages without a receive on one device", without_a_receive, ONE),
    ("a receive that is too short", too_short, {}),
    ("a receive that is too short on one device", too_short, ONE),
    ("writes with a wrong key", wrong_key, {}),
    ("writes with a wrong key on one device", wrong_key, ONE),
    ("a write that the queue pair does not permit", not_permitted),
    ("lost packets", lost_packets),
    ("sends that fail", failing_sends, {}),
    ("sends that fail on one device", failing_sends, ONE),
    ("operations that UC does not have", other_operations),
    ("a receive that fails", failing_receive, {}),
    ("a receive that fails on one device", failing_receive, ONE),
    ("half a message in the error state", half_a_message),
]

if __name__ == "__main__":
    main(CASES)
