# SPDX-License-Identifier: GPL-2.0
"""Changes below a connection that runs: of the netdevs' offloads, of neighbours' entries, of
addresses on the way. Messages arrive whole, and the port has no event but those of its own
changes."""

import os
import subprocess
import threading

import enums as e

from oxetest import (
    DEV_B,
    SIG,
    End,
    Skip,
    connect,
    counters,
    good,
    host_a,
    host_b,
    main,
    next_event,
    pair,
    poll,
    same,
    shut,
    status,
    until,
    with_events,
)

ENDS = [(os.environ[f"NS_{x}"], os.environ[f"VETH_{x}"]) for x in "AB"]
SIZE = 300_000
# What the netdevs of a veth pair have, and what a super-packet's way depends on.
FEATURES = "tx-udp-segmentation", "gso", "gro", "tx", "rx", "sg", "tso"


def run(*command, **options):
    subprocess.run(command, check=True, **options)


def ip(namespace, *arguments):
    run("ip", "-n", namespace, *arguments)


def ethtool(namespace, netdev, feature, value):
    """Whether the netdev took it: "gso on" fails while "tx" is off, say."""
    command = ["ip", "netns", "exec", namespace, "ethtool", "-K", netdev, feature, value]
    done = subprocess.run(
        command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def exchange(a, b, number):
    """A WRITE, a READ and a SEND of new bytes each, all compared."""
    text = os.urandom(SIZE)
    a.mr.write(text, SIZE)
    b.recv(b.sge(SIZE, SIZE), wr_id=number)
    a.send(e.IBV_WR_RDMA_WRITE, a.sge(SIZE), wr_id=number, remote=b.remote())
    a.send(e.IBV_WR_RDMA_READ, a.sge(SIZE, SIZE), wr_id=number, remote=b.remote())
    fenced = SIG | e.IBV_SEND_FENCE
    a.send(e.IBV_WR_SEND, a.sge(SIZE, SIZE), wr_id=number, flags=fenced)
    good(poll(a.cq, 3) + poll(b.rcq))
    same(b.mr.read(SIZE, 0) == text, True, "the bytes written")
    same(a.mr.read(SIZE, SIZE) == text, True, "the bytes read")
    same(b.mr.read(SIZE, SIZE) == text, True, "the bytes sent")


def beside(change, exchanges, changes_wanted=20):
    """change(i) again and again in a thread, beside so many exchanges, and at least so often."""
    over, done, failed = threading.Event(), [], []

    def changes():
        try:
            while not over.is_set():
                change(len(done))
                done.append(1)
        except subprocess.CalledProcessError as error:
            failed.append(error)

    a, b = pair(size=2 * SIZE)
    thread = threading.Thread(target=changes)
    thread.start()
    try:
        number = 0
        while number < exchanges or len(done) < changes_wanted and not failed:
            exchange(a, b, number)
            number += 1
    finally:
        over.set()
        thread.join()
    same(failed, [], "changes that failed")
    shut(a, b)


def offloads():
    before, taken = counters(DEV_B), set()

    def change(i):
        feature = FEATURES[i // 4 % len(FEATURES)]
        if ethtool(*ENDS[i % 2], feature, "off" if i // 2 % 2 == 0 else "on"):
            taken.add(feature)

    try:
        beside(change, 60, 4 * len(FEATURES))
    finally:
        for end in ENDS:
            for feature in reversed(FEATURES):
                ethtool(*end, feature, "on")
    same(taken, set(FEATURES), "the offloads that were switched")
    after = counters(DEV_B)
    for name in "rcvd_bad_icrc", "rcvd_bad_icrc_gso":
        same(after[name], before[name], name)


def forget(namespace, netdev):
    # Without nud, those for good stay.
    ip(namespace, "neigh", "flush", "dev", netdev, "nud", "all")


def neighbours_forgotten():
    beside(lambda i: forget(*ENDS[i % 2]), 60)


def neighbour_unknown_at_first():
    """The first message, more than one super-packet of it, meets no entry of its neighbour."""
    for number in range(20):
        a, b = pair(size=2 * SIZE)
        for end in ENDS:
            forget(*end)
        exchange(a, b, number)
        shut(a, b)


def translated():
    """A path that translates addresses changes what the ICRC covers: the packets are counted, and
    the request ends with RETRY_EXC_ERR."""
    namespace = ENDS[0][0]
    table = "table ip oxt { chain out { type nat hook postrouting priority 100; "
    table += "udp dport 4791 snat to 10.77.0.55; }; }"
    try:
        run("ip", "netns", "exec", namespace, "nft", "-f", "-", input=table, text=True)
    except subprocess.CalledProcessError:
        raise Skip("the kernel has no NAT") from None
    try:
        before = counters(DEV_B)["rcvd_bad_icrc"]
        a, b = End(host_a()), End(host_b())
        connect(a, b, timeout=10, retry=2)
        a.send(e.IBV_WR_RDMA_WRITE, a.sge(64), remote=b.remote())
        same([status(wc) for wc in poll(a.cq)], ["RETRY_EXC_ERR"], "the request")
        until(lambda: counters(DEV_B)["rcvd_bad_icrc"] >= before + 3, "three packets counted")
        shut(a, b)
    finally:
        run("ip", "netns", "exec", namespace, "nft", "delete", "table", "ip", "oxt")


def events_of(events, host):
    found = []
    while (event := next_event(host, events, 1)) is not None:
        found.append(event)
    return found


def no_event_without_a_change():
    """Changes that leave the port as it is: of MTU, offloads, names, flags."""
    namespace, netdev = ENDS[0]
    host, events = with_events(host_a)
    ip(namespace, "link", "set", netdev, "txqueuelen", "500")
    ip(namespace, "link", "set", netdev, "promisc", "on")
    ip(namespace, "link", "set", netdev, "promisc", "off")
    ip(namespace, "link", "set", netdev, "alias", "somewhere")
    ethtool(namespace, netdev, "gro", "on")
    ip(namespace, "link", "set", netdev, "mtu", "1480")
    ip(namespace, "link", "set", netdev, "mtu", "1500")
    same(events_of(events, host), [], "events")
    host.ctx.close()


def one_event_each():
    """An address comes and goes, and the netdev goes down and up: an event for each."""
    namespace, netdev = ENDS[0]
    host, events = with_events(host_a)
    ip(namespace, "addr", "add", "10.77.0.200/32", "dev", netdev)
    same(next_event(host, events), e.IBV_EVENT_GID_CHANGE, "the event of a new address")
    ip(namespace, "addr", "del", "10.77.0.200/32", "dev", netdev)
    same(next_event(host, events), e.IBV_EVENT_GID_CHANGE, "the event of an address that goes")
    same(events_of(events, host), [], "other events")
    ip(namespace, "link", "set", netdev, "down")
    down = events_of(events, host)
    same(down.count(e.IBV_EVENT_PORT_ERR), 1, f"PORT_ERR in {down}")
    same(down.count(e.IBV_EVENT_PORT_ACTIVE), 0, f"PORT_ACTIVE in {down}")
    ip(namespace, "link", "set", netdev, "up")
    up = events_of(events, host)
    same(up.count(e.IBV_EVENT_PORT_ACTIVE), 1, f"PORT_ACTIVE in {up}")
    same(up.count(e.IBV_EVENT_PORT_ERR), 0, f"PORT_ERR in {up}")
    host.ctx.close()


CASES = [
    ("offloads are switched beside traffic", offloads),
    ("a path that translates addresses is counted", translated),
    ("neighbours are forgotten beside traffic", neighbours_forgotten),
    ("the neighbour is unknown at the first message", neighbour_unknown_at_first),
    ("no event of a port that does not change", no_event_without_a_change),
    ("one event for each change", one_event_each),
]

if __name__ == "__main__":
    main(CASES)
