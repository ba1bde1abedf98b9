# SPDX-License-Identifier: GPL-2.0
"""Details of objects in `rdma resource show`, with -dd: that they say what is true, and who sees
them.
"""

import json
import os
import subprocess
import time

import enums as e
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR

from oxetest import (
    ALL_ACCESS,
    DEV_A,
    DEV_B,
    SIG,
    End,
    connect,
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
from odp import ODP, Memory

PATH = "loopback" if DEV_A == DEV_B else "wire"
NOBODY = 65534


def shown(kind, **run):
    """The objects of this process, without the prefix of the details."""
    command = ["rdma", "-j", "resource", "show", kind, "-dd"]
    out = subprocess.run(command, check=True, capture_output=True, text=True, **run).stdout
    found = [each for each in json.loads(out) if each.get("pid") == os.getpid()]
    return [{key.removeprefix("drv_"): value for key, value in each.items()} for each in found]


def of_qp(end, **run):
    return next(each for each in shown("qp", **run) if each["lqpn"] == end.qp.qp_num)


def has(found, **wanted):
    same({key: found.get(key) for key in wanted}, wanted, "details")


def of_rc():
    """Queues and windows of a connection: at rest, and with a request that waits for a receive."""
    a, b = pair()
    has(of_qp(a), sends=0, recvs=0, path=PATH, cwnd=32, ssthresh=16384, in_flight=0, rd_atomic=0)
    has(of_qp(a), retries_left=7, rnr_retries_left=None, srtt_ns=None, error=None)
    has(of_qp(a), rto_ns=None, gso=None, since_sent_ns=None)
    for _ in range(3):
        a.recv(a.sge(8))
    b.send(e.IBV_WR_SEND, b.sge(8), flags=SIG)
    good(poll(b.cq))
    has(of_qp(a), recvs=2)
    until(lambda: PATH == "loopback" or of_qp(b).get("srtt_ns", 0) > 0, "a round trip time")
    if PATH == "wire":
        # A veth takes super-packets, and the shortest timeout of a probe is a millisecond or more.
        has(of_qp(b), gso="yes")
        found = of_qp(b)
        same(found["rto_ns"] >= max(1_000_000, found["srtt_ns"]), True, "the timeout")
    else:
        has(of_qp(b), gso=None)
    began = time.monotonic_ns()
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    has(of_qp(a), sends=2)
    since, most = of_qp(a)["since_sent_ns"], time.monotonic_ns() - began
    same(since <= most, True, f"{since} ns since packets were sent, {most} at most")
    for _ in range(2):
        b.recv(b.sge(8))
    good(poll(a.cq, 2))
    has(of_qp(a), sends=0, in_flight=0)
    shut(a, b)


def retries():
    """What is left of a connection's retries while its peer has no receive posted."""
    a, b = pair(rnr=6, retry=3)
    has(of_qp(a), retries_left=3, rnr_retries_left=6)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RNR_RETRY_EXC_ERR", "the status")
    has(of_qp(a), error="request: RNR_RETRY_EXC_ERR, the peer had no receive posted")
    shut(a, b)


def of_others():
    """UC has a path and no windows, UD neither."""
    a, b = End(host_a(), e.IBV_QPT_UC), End(host_b(), e.IBV_QPT_UC)
    connect(a, b)
    has(of_qp(a), sends=0, recvs=0, path=PATH, cwnd=None)
    shut(a, b)
    end = End(host_a(), e.IBV_QPT_UD)
    end.to_init()
    has(of_qp(end), sends=0, recvs=0, path=None, cwnd=None)
    shut(end)
    end = End(host_a())
    has(of_qp(end), path="none")
    shut(end)


def first_causes():
    """Why a QP is in the error state: the first cause, until it is reset."""
    a, b = pair()
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=(b.mr.buf, b.mr.rkey ^ 0x10000))
    same(status(poll(a.cq)[0]), "REM_ACCESS_ERR", "the status")
    has(of_qp(a), error="request: REM_ACCESS_ERR")
    has(of_qp(b), error="responder: refused an access of the peer (REM_ACCESS_ERR)")
    # What follows is no first cause.
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "WR_FLUSH_ERR", "the status")
    a.to_state(e.IBV_QPS_ERR)
    has(of_qp(a), error="request: REM_ACCESS_ERR")
    a.to_state(e.IBV_QPS_RESET)
    has(of_qp(a), error=None, path="none", since_sent_ns=None)
    shut(a, b)
    # The responder takes no READs.
    a, b = pair(rd_dest=0)
    a.send(e.IBV_WR_RDMA_READ, a.sge(8), remote=b.remote())
    same(status(poll(a.cq)[0]), "REM_INV_REQ_ERR", "the status")
    has(of_qp(b), error="responder: refused a request of the peer (REM_INV_REQ_ERR)")
    b.to_state(e.IBV_QPS_RESET)
    shut(a, b)
    a, b = pair()
    a.to_state(e.IBV_QPS_ERR)
    has(of_qp(a), error="consumer: moved it to the error state")
    b.send(e.IBV_WR_SEND, b.sge(8, lkey=b.mr.lkey ^ 0x10000), flags=SIG)
    same(status(poll(b.cq)[0]), "LOC_PROT_ERR", "the status")
    has(of_qp(b), error="request: LOC_PROT_ERR")
    shut(a, b)


def dead_peer():
    a, b = pair(timeout=10, retry=1)
    b.to_state(e.IBV_QPS_RESET)
    a.send(e.IBV_WR_SEND, a.sge(8), flags=SIG)
    same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", "the status")
    time.sleep(0.3)
    same(of_qp(a)["since_sent_ns"] >= 300_000_000, True, "0.3 s since packets were sent")
    has(of_qp(a), error="request: RETRY_EXC_ERR, the peer did not acknowledge")
    shut(a, b)


def of_cq():
    """How full a CQ is, what its consumer waits for, and a lost completion."""
    a, b = pair(cqe=4)

    def send_cq():
        found = [each for each in shown("cq") if each["unpolled"]]
        return found[0] if found else None

    same(send_cq(), None, "a CQ with completions")
    for _ in range(3):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
    until(lambda: send_cq() and send_cq()["unpolled"] == 3, "three completions")
    has(send_cq(), armed="no", error=None)
    entries = send_cq()["entries"]
    good(poll(a.cq, 3))
    a.cq.req_notify(solicited_only=True)
    same({each["armed"] for each in shown("cq")}, {"no", "solicited"}, "armed")
    a.cq.req_notify()
    same({each["armed"] for each in shown("cq")}, {"no", "yes"}, "armed")
    for _ in range(entries + 1):
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote(), flags=SIG)
    until(lambda: send_cq() and send_cq().get("error"), "an overrun")
    has(send_cq(), error="overrun: a completion found no place, and is lost")
    shut(a, b)


def of_srq():
    host = host_a()
    end = End(host)
    srq = SRQ(host.pd, SrqInitAttr(SrqAttr(max_wr=8, max_sge=1)))
    for _ in range(5):
        srq.post_recv(RecvWR(0, 1, [end.sge(8)]))
    attr = SrqAttr()
    attr.srq_limit = 2
    srq.modify(attr, e.IBV_SRQ_LIMIT)
    has(shown("srq")[0], recvs=5, limit=2)
    srq.close()
    shut(end)


def of_mr():
    host = host_a()
    end = End(host, access=ALL_ACCESS | e.IBV_ACCESS_MW_BIND)
    demand = Memory(host, access=ODP)
    found = sorted(each["memory"] for each in shown("mr"))
    same(found, ["on demand", "pinned"], "the regions")
    pinned = next(each for each in shown("mr") if each["memory"] == "pinned")
    has(pinned, windows=0)
    demand.mr.close()
    shut(end)


def who_may_see():
    """ib_core lists objects to all; details are for CAP_NET_ADMIN alone."""
    a, b = pair()
    found = of_qp(a, user=NOBODY)
    has(found, sends=None, recvs=None, path=None, cwnd=None)
    same(found["state"], "RTS", "what ib_core shows")
    shut(a, b)


CASES = [
    ("RC", of_rc),
    ("retries", retries),
    ("UC and UD", of_others),
    ("why a QP is in the error state", first_causes),
    ("a dead peer", dead_peer),
    ("a CQ", of_cq),
    ("an SRQ", of_srq),
    ("regions", of_mr),
    ("no details without CAP_NET_ADMIN", who_may_see),
]

if __name__ == "__main__":
    main([(f"details: {name}", function) for name, function in CASES])
