# SPDX-License-Identifier: GPL-2.0
"""A peer to which no route leads, or none that may be used: what cannot be sent is lost, and costs
no more than a few lookups for each timeout.

Each lookup that fails counts as a send error: the counter tells how many steps were taken under the
queue pair's lock. Peers without a route have IPv6 addresses: for an IPv4 address without a route
the kernel tries the device's own link.
"""

import ctypes
import ipaddress
import os
import subprocess
import time

import enums as e
from pyverbs.mr import MR

import roce
from mapping import repeated
from oxetest import (
    ALL_ACCESS,
    DEV_A,
    GID6_A,
    GID6_B,
    GID_A,
    GID_B,
    QKEY,
    SLOW,
    End,
    Skip,
    ah_to,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
    status,
    until,
)

NS_A, NS_B = os.environ["NS_A"], os.environ["NS_B"]
IP_A, IP_B = os.environ["IP6_A"], os.environ["IP6_B"]
OXE = os.environ.get("LINK_TYPE", "oxe") == "oxe"
PSN_A, PSN_B = 0x100000, 0x200000
GIB2 = 1 << 31


def ip_a(*words):
    subprocess.run(["ip", "-n", NS_A, *words], check=True)


class NoRoute:
    """with NoRoute(): host A has no route to host B, whose packets still come in."""

    def __enter__(self):
        ip_a("-6", "route", "add", "unreachable", f"{IP_B}/128")

    def __exit__(self, *_):
        ip_a("-6", "route", "del", "unreachable", f"{IP_B}/128")


def ends(*args, **kw):
    return End(host_a(GID6_A), *args, **kw), End(host_b(GID6_B), *args, **kw)


def errors():
    return counters(DEV_A)["send_err"]


def need_oxe():
    if not OXE:
        raise Skip("other drivers count otherwise")


def long_read():
    """The answer to a READ of 2^31 bytes is eight million packets. It is lost as a whole, not
    packet by packet."""
    need_oxe()
    a, b = ends()
    connect(a, b, psn_a=PSN_A, psn_b=PSN_B, mtu=e.IBV_MTU_256)
    start = repeated(GIB2, 2 << 20)
    region = MR(a.host.pd, GIB2, ALL_ACCESS, address=start)
    peer = roce.Sender(NS_B, IP_B, IP_A)
    ask = roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B) + roce.reth(start, region.rkey, GIB2)
    with NoRoute():
        before = errors()
        for _ in range(3):
            peer.send(ask)
        for _ in range(100 * SLOW):
            time.sleep(0.1)
            if errors() != before:
                break
        time.sleep(1)
        steps = errors() - before
    same(0 < steps <= 6, True, f"few lookups for three requests ({steps})")
    # It still takes requests.
    ctypes.memset(start, 0x5A, 100)
    tail = roce.bth(roce.READ_REQUEST, a.qp.qp_num, PSN_B) + roce.reth(start, region.rkey, 100)
    before = counters(DEV_A)["sent_pkts"]
    peer.send(tail)
    for _ in range(100 * SLOW):
        if counters(DEV_A)["sent_pkts"] != before:
            break
        time.sleep(0.1)
    same(
        counters(DEV_A)["sent_pkts"] - before, 1, "answers to a part of it that is asked for again"
    )
    region.close()
    shut(a, b)


def retries():
    """Requests that cannot be sent end as those that are lost: by their timeouts, each of which
    costs a few lookups."""
    need_oxe()
    a, b = ends()
    connect(a, b, timeout=10, retry=3)
    with NoRoute():
        before = errors()
        for i in range(60):
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), wr_id=i, remote=b.remote())
        wcs = poll(a.cq, 60)
        steps = errors() - before
    same([wc.wr_id for wc in wcs], list(range(60)), "completions in order")
    same(
        [status(wcs[0])] + sorted({status(wc) for wc in wcs[1:]}),
        ["RETRY_EXC_ERR", "WR_FLUSH_ERR"],
        "their status",
    )
    # One for each post (the doorbell tries), and for each timeout.
    same(0 < steps <= 60 + 2 * 4, True, f"few lookups for 60 posts and 4 timeouts ({steps})")
    shut(a, b)


def route_returns():
    """A route that is there again in time: nothing is lost for good."""
    a, b = ends()
    connect(a, b, timeout=14, retry=7)
    with NoRoute():
        for i in range(20):
            a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), wr_id=i, remote=b.remote())
        b.send(e.IBV_WR_RDMA_READ, b.sge(30000), wr_id=99, remote=a.remote())
        time.sleep(0.05)
    same([wc.wr_id for wc in good(poll(a.cq, 20))], list(range(20)), "completions in order")
    good(poll(b.cq))
    shut(a, b)


def datagrams():
    """Datagrams are lost one by one, and complete."""
    need_oxe()
    a, b = ends(e.IBV_QPT_UD, depth=200)
    connect(a, b)
    ah = ah_to(a.host, b.host)
    with NoRoute():
        before = errors()
        for i in range(150):
            a.send(e.IBV_WR_SEND, a.sge(100), wr_id=i, ah=(ah, b.qp.qp_num, QKEY))
        same([wc.wr_id for wc in good(poll(a.cq, 150))], list(range(150)), "completions in order")
        same(errors() - before, 150, "lookups")
    b.recv(b.sge(1000))
    a.send(e.IBV_WR_SEND, a.sge(11), ah=(ah, b.qp.qp_num, QKEY))
    good(poll(a.cq) + poll(b.rcq))
    shut(a, b)


def gid_index(address):
    """The place of this address in host A's GID table, once it is there."""
    mapped = f"::ffff:{address}" if "." in address else address
    want = ipaddress.IPv6Address(mapped)
    found = []

    def there():
        for place in range(64):
            with open(f"/sys/class/infiniband/{DEV_A}/ports/1/gids/{place}") as file:
                if ipaddress.IPv6Address(file.read().strip()) == want:
                    found.append(place)
        return found

    until(there, f"a GID of {address}")
    return found[-1]


def source_gone():
    """A connection sends nothing from an address that is not this host's any more."""
    need_oxe()
    for new, prefix, gid_b in (("10.77.0.99", 24, GID_B), ("fd77::99", 64, GID6_B)):
        where = (f"{new}/{prefix}", "dev", os.environ["VETH_A"])
        ip_a("addr", "add", *where, *(["nodad"] if ":" in new else []))
        a, b = End(host_a(gid_index(new))), End(host_b(gid_b))
        connect(a, b, timeout=12, retry=1)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), remote=b.remote())
        good(poll(a.cq))
        ip_a("addr", "del", *where)
        before = errors()
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), remote=b.remote())
        same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", f"the status, from {new}")
        same(errors() > before, True, f"send errors are counted, from {new}")
        shut(a, b)


def forbidden():
    """Packets that an IPsec policy forbids are not sent."""
    for source, peer, gids in (
        (os.environ["IP4_A"], os.environ["IP4_B"], (GID_A, GID_B)),
        (IP_A, IP_B, (GID6_A, GID6_B)),
    ):
        policy = ["src", source, "dst", peer, "proto", "udp", "dport", str(roce.PORT), "dir", "out"]
        command = ["ip", "-n", NS_A, "xfrm", "policy", "add", *policy, "action", "block"]
        if subprocess.run(command, check=False).returncode:
            raise Skip("the kernel has no IPsec policies")
        a, b = End(host_a(gids[0])), End(host_b(gids[1]))
        connect(a, b, timeout=12, retry=1)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), remote=b.remote())
        same(status(poll(a.cq)[0]), "RETRY_EXC_ERR", f"the status, from {source}")
        shut(a, b)
        subprocess.run(["ip", "-n", NS_A, "xfrm", "policy", "delete", *policy], check=True)
        a, b = End(host_a(gids[0])), End(host_b(gids[1]))
        connect(a, b)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(3000), remote=b.remote())
        good(poll(a.cq))
        shut(a, b)


CASES = [
    ("the answer to a READ of 2^31 bytes without a route", long_read),
    ("requests without a route", retries),
    ("a route that returns in time", route_returns),
    ("datagrams without a route", datagrams),
    ("a source address that is gone", source_gone),
    ("packets that an IPsec policy forbids", forbidden),
]

if __name__ == "__main__":
    main(CASES)
