# SPDX-License-Identifier: GPL-2.0
"""`rdma statistic qp`: counters that queue pairs are bound to, by hand and by themselves."""

import json
import os
import subprocess
import sys
import time

import enums as e

from oxetest import (
    DEV_A,
    DEV_B,
    QKEY,
    End,
    ah_to,
    child,
    connect,
    counters,
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

NOBODY = 65534
# The bytes of a packet beside its payload: BTH and ICRC; a RETH, an AETH, a DETH.
OVERHEAD, RETH, AETH, DETH = 16, 16, 4, 8
SEQUENCE, RNR, ACCESS, INVALID = (
    "rcvd_seq_err",
    "rcvd_rnr_err",
    "rcvd_access_err",
    "rcvd_inv_req_err",
)


def rdma(*args, check=True, **run):
    done = subprocess.run(
        ["rdma", "-j", "statistic", *map(str, args)],
        check=False,
        capture_output=True,
        text=True,
        **run,
    )
    if check and done.returncode:
        raise AssertionError(f"rdma statistic {args}: {done.stderr}")
    return json.loads(done.stdout or "[]") if check else done


def link(end):
    return f"{end.host.name}/1"


def shown(device=DEV_A):
    """The counters of a device."""
    return rdma("qp", "show", "link", f"{device}/1")


def counter(end):
    """That of a queue pair; fails if there is none."""
    found = [each for each in shown(end.host.name) if end.qp.qp_num in each["lqpn"]]
    same(len(found), 1, f"counters of {end.qp.qp_num}")
    return found[0]


def bind(end, *to):
    rdma("qp", "bind", "link", link(end), "lqpn", end.qp.qp_num, *to)
    return counter(end)["cntn"]


def unbind(end, number):
    rdma("qp", "unbind", "link", link(end), "cntn", number, "lqpn", end.qp.qp_num)


def settled(device):
    """The port's counters. ib_core keeps values for ten milliseconds."""
    time.sleep(0.05)
    return counters(device)


def netem(*what, side="B"):
    """The arguments of tc netem, for what that side sends."""
    netns = f"--net=/run/netns/{os.environ[f'NS_{side}']}"
    tc = ["tc", "qdisc", "replace", "dev", os.environ[f"VETH_{side}"], "root", "netem", *what]
    subprocess.run(["nsenter", netns, *tc], check=True)


def messages(a, b, count, size=8):
    for _ in range(count):
        b.recv(b.sge(size))
        a.send(e.IBV_WR_SEND, a.sge(size))
    good(poll(a.cq, count) + poll(b.rcq, count))


def by_hand():
    """A counter has what its queue pair sends and receives, and not what another one does."""
    (a, b), (c, d) = pair(), pair()
    bind(a)
    bind(b)
    same([each["lqpn"] for each in shown()], [[a.qp.qp_num]], "bound queue pairs")
    messages(c, d, 5)
    same(counter(a)["sent_pkts"] + counter(a)["rcvd_pkts"], 0, "packets of others")
    messages(a, b, 10)
    messages(c, d, 5)
    sent = counter(a)
    same(sent["sent_pkts"], 10 + sent["retransmits"], "packets")
    same(sent["sent_bytes"], sent["sent_pkts"] * (8 + OVERHEAD), "bytes")
    same(sent["rcvd_bytes"], sent["rcvd_pkts"] * (AETH + OVERHEAD), "bytes of ACKs")
    received = counter(b)
    for one, other in ("sent", "rcvd"), ("rcvd", "sent"):
        for what in "pkts", "bytes":
            same(received[f"{one}_{what}"], sent[f"{other}_{what}"], f"{one}_{what} of the peer")
    # Super-packets: 64 packets, of which the first has a RETH.
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(65536), remote=b.remote())
    good(poll(a.cq))
    now = counter(a)
    if now["retransmits"] == sent["retransmits"]:
        same(now["sent_pkts"] - sent["sent_pkts"], 64, "packets of a WRITE")
        length = 65536 + 64 * OVERHEAD + RETH
        same(now["sent_bytes"] - sent["sent_bytes"], length, "bytes of a WRITE")
        same(counter(b)["rcvd_bytes"] - received["rcvd_bytes"], length, "bytes at the peer")
    same(rdma("qp", "show", "link", link(a), "lqpn", a.qp.qp_num)[0]["cntn"], now["cntn"], "lqpn")
    shut(a, b, c, d)
    same(shown() + shown(DEV_B), [], "counters that are left")


def of_the_port():
    """The port's counters have all packets: while a queue pair is bound, when it is unbound, and
    when it is gone."""
    names = ("sent_pkts", "sent_bytes", "rcvd_pkts", "rcvd_bytes")
    (a, b), (c, d) = pair(), pair()
    before = settled(DEV_A)

    def risen():
        now = settled(DEV_A)
        return {name: now[name] - before[name] for name in names}

    number = bind(a)
    same(risen(), dict.fromkeys(names, 0), "counts after the bind")
    messages(a, b, 10)
    messages(c, d, 10)
    bound, both = counter(a), risen()
    if not both["sent_pkts"] - 20:
        same(both["sent_bytes"], 20 * (8 + OVERHEAD), "bytes of both")
    same(both["rcvd_bytes"], both["rcvd_pkts"] * (AETH + OVERHEAD), "bytes of ACKs")
    assert both["sent_pkts"] >= 10 + bound["sent_pkts"], (both, bound)
    unbind(a, number)
    same(risen(), both, "counts after the unbind")
    same(shown(), [], "counters after the unbind")
    messages(a, b, 5)
    assert risen()["sent_pkts"] >= both["sent_pkts"] + 5
    bind(a)
    same(counter(a)["sent_pkts"], 0, "a new counter begins at 0")
    messages(a, b, 5)
    last = risen()
    shut(a, b, c, d)
    same(risen(), last, "counts after the end")


def shared():
    """Several queue pairs have one counter. It goes with the last one."""
    (a, b), (c, d) = pair(), pair()
    number = bind(a)
    same(bind(c, "cntn", number), number, "the counter")
    messages(a, b, 4)
    messages(c, d, 6)
    found = counter(a)
    same(sorted(found["lqpn"]), sorted([a.qp.qp_num, c.qp.qp_num]), "its queue pairs")
    same(found["sent_pkts"], 10 + found["retransmits"], "packets")
    unbind(a, number)
    messages(a, b, 4)
    found = counter(c)
    same(found["sent_pkts"], 10 + found["retransmits"], "packets of the other one")
    done = rdma("qp", "bind", "link", link(c), "lqpn", c.qp.qp_num, check=False)
    same(bool(done.returncode), True, "a queue pair has one counter at most")
    unbind(c, number)
    same(shown(), [], "counters")
    shut(a, b, c, d)


def by_type():
    """Auto mode: queue pairs of one type have a counter, from the time that they are in INIT."""
    port = f"{DEV_A}/1"
    rdma("qp", "set", "link", port, "auto", "type", "on")
    try:
        (a, b), (c, d) = pair(), pair()
        near, far = End(host_a(), e.IBV_QPT_UD), End(host_b(), e.IBV_QPT_UD)
        connect(near, far)
        same(len(shown()), 2, "types")
        same(sorted(counter(a)["lqpn"]), sorted([a.qp.qp_num, c.qp.qp_num]), "RC")
        messages(a, b, 3)
        messages(c, d, 4)
        far.recv(far.sge(100))
        near.send(e.IBV_WR_SEND, near.sge(8), ah=(ah_to(near.host, far.host), far.qp.qp_num, QKEY))
        good(poll(near.cq) + poll(far.rcq))
        found = counter(a)
        same(found["sent_pkts"], 7 + found["retransmits"], "packets of RC")
        same(counter(near)["sent_pkts"], 1, "datagrams")
        same(counter(near)["sent_bytes"], 8 + OVERHEAD + DETH, "bytes of a datagram")
        done = rdma("qp", "bind", "link", port, "lqpn", a.qp.qp_num, check=False)
        same(bool(done.returncode), True, "a bind by hand fails")
        shut(a, b, c, d, near, far)
        same(shown(), [], "counters that are left")
    finally:
        rdma("qp", "set", "link", port, "auto", "off")
    a, b = pair()
    same(shown(), [], "counters without auto mode")
    shut(a, b)


def by_process():
    """Auto mode: the queue pairs of one process have a counter, whatever their types."""
    port = f"{DEV_A}/1"
    rdma("qp", "set", "link", port, "auto", "pid", "on")
    try:
        a, b = pair()
        near, far = End(host_a(), e.IBV_QPT_UD), End(host_b(), e.IBV_QPT_UD)
        connect(near, far)
        ours = counter(a)
        same(sorted(ours["lqpn"]), sorted([a.qp.qp_num, near.qp.qp_num]), "our queue pairs")
        same(ours["pid"], os.getpid(), "the process")
        messages(a, b, 3)

        def another():
            c, d = pair()
            messages(c, d, 5)
            found = counter(c)
            same((found["lqpn"], found["pid"]), ([c.qp.qp_num], os.getpid()), "its counter")
            same(found["sent_pkts"], 5 + found["retransmits"], "its packets")
            same(len(shown()), 2, "processes")

        same(child(another), True, "the other process lived")
        until(lambda: len(shown()) == 1, "the end of its counter")
        found = counter(near)
        same(found["sent_pkts"], 3 + found["retransmits"], "our packets")
        shut(a, b, near, far)
        same(shown(), [], "counters that are left")
    finally:
        rdma("qp", "set", "link", port, "auto", "off")


def lost():
    """What is lost is sent again, and counted: the request, its ACK, a packet in the middle."""
    a, b = pair(timeout=17)
    bind(a)
    bind(b)
    messages(a, b, 2)
    same([counter(a)[name] for name in (SEQUENCE, RNR)], [0, 0], "NAKs without a loss")
    at_port = settled(DEV_A)
    b.recv(b.sge(8))
    netem("loss", "100%", side="A")
    a.send(e.IBV_WR_SEND, a.sge(8))
    until(lambda: counter(a)["ack_timeouts"] > 0, "an ACK timeout")
    netem("loss", "0", side="A")
    good(poll(a.cq) + poll(b.rcq))
    again = counter(a)["retransmits"]
    assert again > 0, "nothing was sent again"
    same(settled(DEV_A)["retransmits"] - at_port["retransmits"], again, "the port's")
    same(counter(b)["duplicate_request"], 0, "duplicates of what did not arrive")
    netem("loss", "100%")
    b.recv(b.sge(8))
    a.send(e.IBV_WR_SEND, a.sge(8))
    until(lambda: counter(b)["duplicate_request"] > 0, "a duplicate")
    netem("loss", "0")
    good(poll(a.cq) + poll(b.rcq))
    # Each message has 64 packets, which are lost one by one.
    netem("loss", "5%", side="A")
    offload = ["ethtool", "-K", os.environ["VETH_A"], "tx-udp-segmentation"]
    netns = ["nsenter", f"--net=/run/netns/{os.environ['NS_A']}"]
    subprocess.run([*netns, *offload, "off"], check=True)

    def gap():
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(65536), remote=b.remote())
        good(poll(a.cq))
        return counter(a)[SEQUENCE] > 0

    until(gap, "a gap")
    assert counter(b)["out_of_seq_request"] > 0
    netem("loss", "0", side="A")
    subprocess.run([*netns, *offload, "on"], check=True)
    shut(a, b)


def not_ready():
    """A receiver without a receive."""
    a, b = pair(min_rnr=1)
    bind(a)
    bind(b)
    a.send(e.IBV_WR_SEND, a.sge(8))
    until(lambda: counter(a)[RNR] > 2, "RNR NAKs")
    b.recv(b.sge(8))
    good(poll(a.cq))
    found = counter(a)
    same(counter(b)["sent_rnr_err"], found[RNR], "RNR NAKs of the peer")
    assert found["retransmits"] >= found[RNR], found
    shut(a, b)


def refused():
    """NAKs that end a connection, each of its kind."""
    a, b = pair()
    bind(a)
    bind(b)
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=(b.mr.buf, b.mr.rkey ^ 0x10000))
    same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", "the status")
    kinds = (SEQUENCE, RNR, ACCESS, INVALID, "rcvd_op_err")
    same([counter(a)[name] for name in kinds], [0, 0, 1, 0, 0], "NAKs")
    same(counter(b)["refused_request"], 1, "refusals of the peer")
    shut(a, b)
    a, b = pair(rd_dest=0)
    bind(a)
    a.send(e.IBV_WR_RDMA_READ, a.sge(8), remote=b.remote())
    same(status(poll(a.cq)[0]), "REM_INV_REQ_ERR", "the status")
    same([counter(a)[name] for name in kinds], [0, 0, 0, 1, 0], "NAKs")
    shut(a, b)
    a, b = pair()
    bind(a)
    b.recv(b.sge(8, lkey=b.mr.lkey ^ 0x10000))
    a.send(e.IBV_WR_SEND, a.sge(8))
    same(status(poll(a.cq)[0]), "REM_OP_ERR", "the status")
    same([counter(a)[name] for name in kinds], [0, 0, 0, 0, 1], "NAKs")
    shut(a, b)


def on_one_device():
    """By loopback there are no packets, but what befalls a requester is counted."""
    a, b = End(host_a()), End(host_a())
    connect(a, b, min_rnr=1)
    bind(a)
    bind(b)
    a.send(e.IBV_WR_SEND, a.sge(8))
    until(lambda: counter(a)[RNR] > 0, "RNR NAKs")
    b.recv(b.sge(8))
    good(poll(a.cq))
    same(counter(a)["sent_pkts"] + counter(b)["rcvd_pkts"], 0, "packets")
    assert counter(b)["sent_rnr_err"] > 0
    shut(a, b)


def under_way():
    """Binding and unbinding beside traffic: no packet is counted twice, none is lost."""
    a, b = pair()
    before, total = settled(DEV_A), 0
    for turn in range(60):
        number = bind(a)
        b.recv(b.sge(8))
        a.send(e.IBV_WR_SEND, a.sge(8))
        if turn % 2:
            unbind(a, number)
            good(poll(a.cq) + poll(b.rcq))
        else:
            good(poll(a.cq) + poll(b.rcq))
            total += counter(a)["sent_pkts"]
            unbind(a, number)
    now = settled(DEV_A)
    sent = now["sent_pkts"] - before["sent_pkts"]
    same(sent, 60 + now["retransmits"] - before["retransmits"], "packets of the port")
    assert 30 <= total <= sent, (total, sent)
    shut(a, b)


def ended():
    """A process ends with a bound queue pair: the counter goes, its counts stay with the port."""
    before = settled(DEV_A)["sent_pkts"]

    def program():
        a, b = pair()
        bind(a)
        messages(a, b, 10)
        os._exit(0)

    child(program)
    until(lambda: not shown(), "the end of the counter")
    assert settled(DEV_A)["sent_pkts"] >= before + 10


def who_may():
    """ib_core lets only CAP_NET_ADMIN bind and unbind; all may read counters."""
    a, b = pair()
    options = ("link", link(a), "lqpn", a.qp.qp_num)
    done = rdma("qp", "bind", *options, check=False, user=NOBODY)
    same(bool(done.returncode), True, "a bind")
    assert "not permitted" in done.stderr, done.stderr
    number = bind(a)
    done = rdma("qp", "unbind", *options, "cntn", number, check=False, user=NOBODY)
    same(bool(done.returncode), True, "an unbind")
    done = rdma("qp", "set", "link", link(a), "auto", "type", "on", check=False, user=NOBODY)
    same(bool(done.returncode), True, "auto mode")
    found = rdma("qp", "show", "link", link(a), user=NOBODY)
    same([each["cntn"] for each in found], [number], "what all see")
    shut(a, b)


def hold():
    """Until it is killed this has a bound queue pair."""
    a, b = pair()
    bind(a)
    messages(a, b, 3)
    print("bound", flush=True)
    while True:
        time.sleep(1)


CASES = [
    ("bound by hand", by_hand),
    ("the port", of_the_port),
    ("one counter for several", shared),
    ("auto mode by type", by_type),
    ("auto mode by process", by_process),
    ("lost packets", lost),
    ("a receiver that is not ready", not_ready),
    ("refused requests", refused),
    ("loopback", on_one_device),
    ("bound and unbound under way", under_way),
    ("the end of a process", ended),
    ("without capabilities", who_may),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["hold"]:
        hold()
    main([(f"statistic: {name}", function) for name, function in CASES])
