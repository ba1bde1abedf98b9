# SPDX-License-Identifier: GPL-2.0
"""The time until a request to a peer that is gone fails, with a retry_cnt of 7: 8 to 16 times the ACK
timeout, where IBTA 9.7.6.1.3 allows 8 to 32. The deterministic machine's clock judges.
"""

import os
import subprocess
import time

import enums as e

from oxetest import SLOW, End, connect, host_a, host_b, main, poll, same, shut, status

RETRIES = 7
OPERATIONS = {
    "SEND": e.IBV_WR_SEND,
    "WRITE": e.IBV_WR_RDMA_WRITE,
    "READ": e.IBV_WR_RDMA_READ,
    "FETCH_ADD": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}


def link_b(state):
    link = ["ip", "-n", os.environ["NS_B"], "link", "set", os.environ["VETH_B"], state]
    subprocess.run(link, check=True)


def waits(near, exponent, used, leave, come_back=lambda: None):
    """The peer goes by leave(end); used: after a message."""
    for name, opcode in OPERATIONS.items():
        a, b = End(host_a()), End(host_a() if near else host_b())
        connect(a, b, timeout=exponent, retry=RETRIES)
        if used:
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(8), remote=b.remote())
            poll(a.cq)
        remote = b.remote()
        leave(b)
        kind = {} if opcode == e.IBV_WR_SEND else {"remote": remote}
        if opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
            kind["atomic"] = (1, 0)
        began = time.monotonic()
        a.send(opcode, a.sge(8), **kind)
        (wc,) = poll(a.cq)
        took = (time.monotonic() - began) / (4.096e-6 * 2**exponent)
        come_back()
        same(status(wc), "RETRY_EXC_ERR", f"the {name}")
        if SLOW == 1 and not RETRIES + 1 <= took <= 2 * (RETRIES + 1):
            raise AssertionError(f"the {name} failed after {took:.1f} timeouts")
        shut(a, b)


def cases():
    ways = [
        ("its queue pair is destroyed", lambda b: b.qp.close()),
        ("its queue pair is in the error state", lambda b: b.to_state(e.IBV_QPS_ERR)),
        ("its queue pair is in the reset state", lambda b: b.to_state(e.IBV_QPS_RESET)),
    ]
    for place, near in ("the wire", False), ("one device", True):
        for exponent in 14, 17:
            for used in False, True:
                for way, leave in ways:
                    text = f"{place}, timeout {exponent}, {'' if used else 'not '}used before: {way}"
                    yield text, waits, near, exponent, used, leave
    yield (
        "the wire, timeout 14: its link is down",
        waits,
        False,
        14,
        True,
        lambda b: link_b("down"),
        lambda: link_b("up"),
    )


if __name__ == "__main__":
    main(cases())
