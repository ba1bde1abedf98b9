# SPDX-License-Identifier: GPL-2.0
"""Pods: network namespaces that have addresses of host A's device. Who may use which GID, and whose
packets reach whose queue pairs."""

import errno
import os
import socket

import enums as e
import roce
from oxetest import (
    DEV_A,
    GID_A,
    QKEY,
    SIG,
    End,
    Host,
    ah_to,
    child,
    connect,
    counters,
    errno_of,
    good,
    host_b,
    main,
    none_pending,
    poll,
    same,
    shut,
    until,
)
from tracing import Trace

ONE, TWO, OTHER = os.environ["ONE"], os.environ["TWO"], os.environ["OTHER"]
GID_ONE, GID_TWO = int(os.environ["GID4_ONE"]), int(os.environ["GID4_TWO"])
IP_A, IP_B, IP_ONE = os.environ["IP4_A"], os.environ["IP4_B"], os.environ["IP4_ONE"]
NS_A, NS_B, VETH_B = os.environ["NS_A"], os.environ["NS_B"], "oxvb"
PSN = 0x456


def enter(namespace):
    with open(f"/run/netns/{namespace}", "rb") as file:
        os.setns(file.fileno(), os.CLONE_NEWNET)


def gained(before, name):
    return counters(DEV_A)[name] - before[name]


def gids():
    """Each namespace uses its own GIDs and the device's, and no other one's."""
    for namespace, allowed in (
        (NS_A, (GID_A,)),
        (NS_B, (GID_A,)),
        (ONE, (GID_A, GID_ONE)),
        (TWO, (GID_A, GID_TWO)),
    ):

        def use(namespace=namespace, allowed=allowed):
            enter(namespace)
            peer = host_b()
            for gid in (GID_A, GID_ONE, GID_TWO):
                want = 0 if gid in allowed else errno.EPERM
                end = End(Host(DEV_A, gid))
                end.to_init()
                got = errno_of(end.to_rtr, peer.gid_value(), 0x1234)
                same(got, want, f"errno of RTR with GID {gid} in {namespace}")
                got = errno_of(ah_to, end.host, peer)
                same(got, want, f"errno of an address handle with GID {gid} in {namespace}")

        child(use)


def datagrams():
    """A datagram reaches a pod's queue pair by that pod's address, not by another pod's."""

    def receive():
        enter(ONE)
        pod = End(Host(DEV_A, GID_ONE), e.IBV_QPT_UD)
        peer = End(host_b(), e.IBV_QPT_UD)
        connect(pod, peer)
        for n in range(2):
            pod.recv(pod.sge(1024, 1024 * n), wr_id=n)
        before = counters(DEV_A)
        with Trace("drop") as trace:
            for gid in (GID_TWO, GID_ONE):
                ah = (ah_to(peer.host, Host(DEV_A, gid)), pod.qp.qp_num, QKEY)
                peer.send(e.IBV_WR_SEND, peer.sge(100), flags=SIG, ah=ah, wr_id=gid)
                good(poll(peer.cq))
            good(poll(pod.rcq))
            trace.has(pod, "drop", "rcvd_wrong_netns")
        none_pending(pod.rcq)
        same(gained(before, "rcvd_wrong_netns"), 1, "datagrams by another pod's address")

    child(receive)


def ether(namespace, netdev, mac):
    """A packet socket on a netdev there; what to put in front of an IP packet to the MAC address."""

    def make():
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.bind((netdev, 0x0800))
        return made

    made = roce.in_namespace(namespace, make)
    return made, bytes.fromhex(mac.replace(":", "")) + made.getsockname()[4] + b"\x08\x00"


def forged(sender, head, destination, qpn, psn, payload):
    """A SEND of host B's address to a queue pair, as its peer would send it."""
    body = roce.bth(roce.SEND_ONLY, qpn, psn) + payload
    ip = bytearray(roce.ipv4(IP_B, destination, 8 + len(body) + 4))
    crc = roce.icrc(bytes(ip), body, 49152)
    ip[10:12] = roce.struct.pack("!H", roce.ones_sum(ip) ^ 0xFFFF)
    udp = roce.struct.pack("!HHHH", 49152, roce.PORT, 8 + len(body) + 4, 0)
    sender.send(head + bytes(ip) + udp + body + crc)


def same_address():
    """A pod with the same address on another network: its packets reach no queue pair of the first
    one's, however well they are forged; its peer's still do."""

    def victim():
        enter(ONE)
        pod, peer = End(Host(DEV_A, GID_ONE)), End(host_b())
        connect(pod, peer, psn_b=PSN)
        pod.recv(pod.sge(1024), wr_id=1)
        before = counters(DEV_A)
        twin = ether(NS_B, f"{VETH_B}.7", os.environ["MAC_TWIN"])
        forged(*twin, IP_ONE, pod.qp.qp_num, PSN, b"evil")
        until(lambda: gained(before, "rcvd_wrong_netns") == 1, "the forged packet is counted")
        none_pending(pod.rcq)
        peer.send(e.IBV_WR_SEND, peer.sge(100), wr_id=2)
        good(poll(peer.cq))
        good(poll(pod.rcq))

    child(victim)


def neighbour():
    """A packet by a netdev that has no device, and is not above one, reaches none, although its
    destination is the device's address."""
    a, b = End(Host(DEV_A, GID_A)), End(host_b())
    connect(a, b, psn_b=PSN)
    a.recv(a.sge(1024), wr_id=1)
    before = counters(DEV_A)
    no_ports = udp_no_ports()
    forged(*ether(OTHER, "oxvp", os.environ["MAC_OXVO"]), IP_A, a.qp.qp_num, PSN, b"evil")
    until(lambda: udp_no_ports() > no_ports, "the packet is rejected")
    same(gained(before, "rcvd_pkts"), 0, "packets that the device saw")
    none_pending(a.rcq)
    b.send(e.IBV_WR_SEND, b.sge(100), wr_id=2)
    good(poll(b.cq))
    good(poll(a.rcq))
    shut(a, b)


def udp_no_ports():
    """UDP packets in host A's namespace that had no receiver."""

    def read():
        with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
            names, values = [line.split() for line in file if line.startswith("Udp:")]
        return int(values[names.index("NoPorts")])

    return roce.in_namespace(NS_A, read)


main(
    [
        ("pods: each uses its own GIDs and the device's", gids),
        ("pods: datagrams by another pod's address", datagrams),
        ("pods: the same address in another pod", same_address),
        ("pods: a netdev without a device", neighbour),
    ]
)
