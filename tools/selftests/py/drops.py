# SPDX-License-Identifier: GPL-2.0
"""Each counter of dropped packets is made to count, and the trace event oxe_drop names it.

MADE has a function for each of them, which drops a packet under that name and returns the number of
the queue pair that its event has: that of the packet's BTH, or 0 if the BTH was not read. Hostile
packets come from host B under its peer's address, as in wire.py, to queue pairs of host A.
"""

import collections
import os

import enums as e

import roce
from loopback import forge
from mcast import GROUP_QPN, leave_many, many_members
from odp import ODP, Memory
from oxetest import (
    DEV_A,
    DEV_B,
    QKEY,
    SIG,
    End,
    child,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    until,
)
from tracing import Trace

NS_B, IP_A, IP_B = os.environ["NS_B"], os.environ["IP4_A"], os.environ["IP4_B"]
PSN_A, PSN_B = 0x100000, 0x200000  # a's and b's first PSN
attacker = roce.Sender(NS_B, IP_B, IP_A)

# Counters of something else than packets that were dropped on their way in; rcvd_bad_icrc_gso has a
# part of rcvd_bad_icrc, kept_requests one of out_of_seq_request.
OTHERS = {
    "sent_pkts", "rcvd_pkts", "sent_bytes", "rcvd_bytes", "send_err", "send_no_memory",
    "link_downed", "retransmits", "ack_timeouts", "read_gaps", "rcvd_seq_err", "rcvd_rnr_err",
    "rcvd_inv_req_err", "rcvd_access_err", "rcvd_op_err", "np_ecn_marked_roce_packets",
    "np_cnp_sent", "rcvd_bad_icrc_gso", "kept_requests", "rp_cnp_handled",
}
# Counters that other tests make count, or none.
NOT_HERE = {
    "rcvd_wrong_netns": "it takes two pods: pods.py, with its event",
    "rcvd_no_grh": "a packet of RoCEv2 has an IP header, always: transport/tests/ud.rs",
    "early_ack": "a request has to overtake the delivery of a message by loopback, which takes"
    " nanoseconds: transport/tests/lent.rs, and the simulator",
}


class Connection:
    """A queue pair of host A, and its true peer on host B. Nothing happens by itself."""

    def __init__(self, **options):
        self.a, self.b = End(host_a()), End(host_b())
        connect(self.a, self.b, psn_a=PSN_A, psn_b=PSN_B, **{"timeout": 0, **options})
        self.qpn = self.a.qp.qp_num

    def request(self, opcode, *rest, ahead=0, **options):
        """A packet of the peer's requester."""
        attacker.send(roce.bth(opcode, self.qpn, PSN_B + ahead, **options) + b"".join(rest))
        return self.qpn

    def response(self, opcode, *rest, ahead=0):
        """A packet of the peer's responder."""
        attacker.send(roce.bth(opcode, self.qpn, PSN_A + ahead) + b"".join(rest))
        return self.qpn

    def read_unanswered(self, length):
        """A READ of host A's that its true peer does not answer."""
        self.b.to_state(e.IBV_QPS_ERR)
        self.a.send(e.IBV_WR_RDMA_READ, self.a.sge(length), remote=self.b.remote())

    def read_answered(self):
        """A READ of host B's."""
        self.b.send(e.IBV_WR_RDMA_READ, self.b.sge(100), remote=self.a.remote())
        good(poll(self.b.cq))


# ---- datagrams that are no packets


def too_short():
    attacker.raw(bytes(5))
    return 0


def bad_version():
    Connection().request(roce.SEND_ONLY, bytes(8), version=1)
    return 0


def unknown_opcode():
    Connection().request(0x7F, bytes(8))
    return 0


def bad_pad():
    Connection().request(roce.SEND_ONLY, bytes(5), pad=1)
    return 0


def length_underflow():
    Connection().request(roce.SEND_ONLY, pad=1)
    return 0


def unexpected_payload():
    Connection().response(roce.ACK, roce.aeth(0x1F), bytes(4))
    return 0


def bad_icrc():
    to = Connection()
    attacker.send(roce.bth(roce.SEND_ONLY, to.qpn, PSN_B) + bytes(8), good=False)
    return to.qpn


# ---- packets that no queue pair takes


def no_qp():
    attacker.send(roce.bth(roce.SEND_ONLY, 0x700000, PSN_B) + bytes(8))
    return 0x700000


def wrong_address():
    to = Connection()
    attacker.source = "10.77.0.99"
    try:
        return to.request(roce.SEND_ONLY, bytes(8))
    finally:
        attacker.source = IP_B


def wrong_src_qp():
    """By loopback, as a packet of a connection does not say which queue pair sent it."""
    a, b = End(host_a()), End(host_a())
    connect(a, b, psn_a=PSN_A)
    remote, gid, qpn = b.remote(), b.host.gid_value(), b.qp.qp_num
    same(child(lambda: forge(*remote, gid, qpn, PSN_A)), True, "the forger's process lived")
    return qpn


def group_overflow():
    """Datagrams to more queue pairs of a group than get them in one softirq: a kernel thread passes
    them on, and gets no time meanwhile.
    """
    sender, ends, group = many_members()
    to = (sender.to(group), GROUP_QPN, QKEY)
    before = of_drops()["rcvd_group_overflow"]
    # Unbound work runs on one CPU then, which this process does not share.
    with open("/sys/devices/virtual/workqueue/cpumask", "r+", encoding="ascii") as file:
        cpus, usual = file.read().strip(), os.sched_getaffinity(0)
        file.write("1")
        file.flush()
        os.sched_setaffinity(0, {0})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        try:
            for _ in range(4):
                for _ in range(25):
                    sender.send(e.IBV_WR_SEND, sender.sge(8), ah=to, flags=SIG)
                good(poll(sender.cq, 25))
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(0, usual)
            file.write(cpus)
    same(of_drops()["rcvd_group_overflow"] > before, True, "the queue had no room for a hundred")
    leave_many(sender, ends, group)
    return GROUP_QPN


def qp_state():
    a = End(host_a())
    a.to_init()
    attacker.send(roce.bth(roce.SEND_ONLY, a.qp.qp_num, PSN_B) + bytes(8))
    return a.qp.qp_num


def wrong_service():
    return Connection().request(0x20 | roce.SEND_ONLY, bytes(8))


def bad_pkey():
    return Connection().request(roce.SEND_ONLY, bytes(8), pkey=0x1234)


def cnp():
    return Connection().request(roce.CNP, bytes(16))


# ---- datagrams


def datagram(length, qkey=QKEY, receive=None):
    a = End(host_a(), e.IBV_QPT_UD)
    a.to_init()
    a.to_rtr(None, 0)
    if receive:
        a.recv(a.sge(receive))
    attacker.send(roce.bth(roce.UD_SEND_ONLY, a.qp.qp_num, 0) + roce.deth(qkey, 5) + bytes(length))
    return a.qp.qp_num


# ---- requests


def not_ready():
    return Connection().request(roce.SEND_ONLY, bytes(8))


def out_of_sequence():
    return Connection().request(roce.SEND_ONLY, bytes(8), ahead=5)


def duplicate():
    to = Connection()
    to.b.send(e.IBV_WR_RDMA_WRITE, to.b.sge(8), remote=to.a.remote())
    good(poll(to.b.cq))
    return to.request(roce.WRITE_ONLY, roce.reth(*to.a.remote(), 8), bytes(8))


def unknown_duplicate():
    to = Connection()
    to.read_answered()
    return to.request(roce.READ_REQUEST, roce.reth(to.a.mr.buf + 1000, to.a.mr.rkey, 50))


def duplicate_read_denied():
    to = Connection()
    to.read_answered()
    remote = to.a.remote()
    to.a.mr.close()
    return to.request(roce.READ_REQUEST, roce.reth(*remote, 100))


def page_fault():
    to = Connection()
    memory = Memory(to.a.host, access=ODP)
    memory.drop()
    return to.request(roce.WRITE_ONLY, roce.reth(*memory.remote(4096), 8), bytes(8))


def refused():
    to = Connection()
    address, rkey = to.a.remote()
    return to.request(roce.WRITE_ONLY, roce.reth(address, rkey ^ 0x100, 8), bytes(8))


# ---- responses


def ghost_ack():
    return Connection().response(roce.ACK, roce.aeth(0x1F), ahead=1)


def response_gap():
    to = Connection()
    to.read_unanswered(2048)
    return to.response(roce.ACK, roce.aeth(0x1F), ahead=1)


def duplicate_nak():
    to = Connection()
    to.read_unanswered(100)
    to.response(roce.ACK, roce.aeth(0x60))
    return to.response(roce.ACK, roce.aeth(0x60))


def bad_response():
    to = Connection()
    to.read_unanswered(100)
    return to.response(roce.ACK, roce.aeth(0x40))  # a reserved syndrome


def response_place_err():
    to = Connection()
    to.read_unanswered(100)
    to.a.mr.close()
    return to.response(roce.READ_ONLY, roce.aeth(0x1F), bytes(100))


MADE = {
    "rcvd_too_short": too_short,
    "rcvd_bad_version": bad_version,
    "rcvd_unknown_opcode": unknown_opcode,
    "rcvd_bad_pad": bad_pad,
    "rcvd_length_underflow": length_underflow,
    "rcvd_unexpected_payload": unexpected_payload,
    "rcvd_bad_icrc": bad_icrc,
    "rcvd_no_qp": no_qp,
    "rcvd_wrong_address": wrong_address,
    "rcvd_wrong_src_qp": wrong_src_qp,
    "rcvd_group_overflow": group_overflow,
    "rcvd_qp_state": qp_state,
    "rcvd_wrong_service": wrong_service,
    "rcvd_bad_pkey": bad_pkey,
    "rcvd_bad_qkey": lambda: datagram(8, qkey=QKEY + 1),
    "rp_cnp_ignored": cnp,
    "out_of_buffer": lambda: datagram(8),
    "rcvd_longer_than_buffer": lambda: datagram(24, receive=60),
    "rcvd_too_long": lambda: datagram(4100, receive=8192),
    "sent_rnr_err": not_ready,
    "out_of_seq_request": out_of_sequence,
    "duplicate_request": duplicate,
    "unknown_duplicate": unknown_duplicate,
    "duplicate_read_denied": duplicate_read_denied,
    "page_fault": page_fault,
    "refused_request": refused,
    "ghost_ack": ghost_ack,
    "response_gap": response_gap,
    "duplicate_nak": duplicate_nak,
    "bad_response": bad_response,
    "response_place_err": response_place_err,
}


def of_drops():
    """The counters of dropped packets, of both devices together."""
    sums = collections.Counter()
    for device in (DEV_A, DEV_B):
        sums.update({name: n for name, n in counters(device).items() if name not in OTHERS})
    return sums


def made(name):
    # Its datagrams reach forty queue pairs, which drop them: tens of thousands of events.
    alone = name == "rcvd_group_overflow"
    before = of_drops()
    with Trace("drop") as trace:
        if alone:
            trace.write("events/oxe/oxe_drop/filter", f'counter == "{name}"')
        qpn = MADE[name]()

        def traced():
            return collections.Counter(each.text for each in trace.events())

        def counted():
            risen = of_drops() - before
            return collections.Counter({name: risen[name]}) if alone else risen

        until(lambda: (name, qpn) in {(each.text, each.qpn) for each in trace.events()}, name)
        # What else is dropped meanwhile is counted and traced as well; each read takes its time.
        until(lambda: counted() == traced(), f"counters as traced: {traced()}")


def all_of_them():
    """Each counter of the port is made here, or it is known why not."""
    known = set(MADE) | set(NOT_HERE) | OTHERS
    same(sorted(set(counters(DEV_A)) ^ known), [], "counters without an entry, or the reverse")


main([(name, made, name) for name in MADE] + [("no counter is left out", all_of_them)])
