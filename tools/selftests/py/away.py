# SPDX-License-Identifier: GPL-2.0
"""An address of one end goes away for a moment and comes back, as a DHCP client or a restart of the
network does: a connection whose timeouts are longer than that survives, and one whose are shorter
fails with RETRY_EXC_ERR."""

import ipaddress
import os
import subprocess
import time

import enums as e

from oxetest import DEV_B, SLOW, End, connect, good, host_a, host_b, main, poll, same, shut, status, until

NS, NETDEV, ADDRESS = os.environ["NS_B"], os.environ["VETH_B"], os.environ["IP4_B"] + "/24"
GIDS = f"/sys/class/infiniband/{DEV_B}/ports/1/gids"
AWAY = 2  # seconds


def address(verb):
    subprocess.run(["ip", "-n", NS, "addr", verb, ADDRESS, "dev", NETDEV], check=True)


def gid_index():
    """The index of the address: it gets another one while a connection has the old entry."""
    want = ipaddress.ip_address("::ffff:" + ADDRESS.split("/")[0])
    for name in os.listdir(GIDS):
        try:
            with open(f"{GIDS}/{name}", encoding="ascii") as file:
                if ipaddress.ip_address(file.read().strip()) == want:
                    return int(name)
        except OSError:
            pass  # an entry that goes
    return None


def away(survives, posts_at_b):
    """The end on host B has the address; the request comes from the one or the other."""
    until(lambda: gid_index() is not None, "the GID")
    a, b = End(host_a()), End(host_b(gid_index()))
    # 15 waits of 0.54 s and of 4.2 ms: 8 s and 63 ms.
    connect(a, b, timeout=17 if survives else 10, retry=7)
    sender, peer = (b, a) if posts_at_b else (a, b)
    sender.send(e.IBV_WR_RDMA_WRITE, sender.sge(8), remote=peer.remote())
    good(poll(sender.cq))
    address("del")
    sender.send(e.IBV_WR_RDMA_WRITE, sender.sge(8), remote=peer.remote())
    time.sleep(AWAY * (1 if survives else SLOW))
    address("add")
    want = "SUCCESS" if survives else "RETRY_EXC_ERR"
    same([status(wc) for wc in poll(sender.cq)], [want], "the request")
    if survives:
        sender.send(e.IBV_WR_RDMA_READ, sender.sge(8), remote=peer.remote())
        good(poll(sender.cq))
    shut(a, b)


CASES = [
    (f"an address that was away: {text}", away, survives, posts_at_b)
    for text, survives, posts_at_b in (
        ("requests to it survive", True, False),
        ("requests from it survive", True, True),
        ("short timeouts to it end", False, False),
        ("short timeouts from it end", False, True),
    )
]

if __name__ == "__main__":
    main(CASES)
