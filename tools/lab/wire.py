# SPDX-License-Identifier: GPL-2.0
"""The network of the lab: two hosts, and a router between them that has the bottleneck.

The queue is on the router and not on the sender: a sender that sees its own queue sends no more
than that has room for, and loses nothing. Data go from the first host to the second. The names and
addresses are those of tools/perf/driver.py, whose devices are made on the hosts.
"""

import json
import os
import socket
import struct
import time

from driver import IP, NS, VETH, run

ROUTER = "oxp-r"
# The router's netdevs, one to each host, its address at both, and what delays arrivals at host b.
PORTS = ("oxpra", "oxprb")
ROUTER_IP = "10.66.0.254"
IFB = "oxpifb"
MTU = 1500

RTM_NEWQDISC, RTM_GETQDISC, NLM_F_DUMP_REQUEST, NLMSG_DONE = 36, 38, 0x301, 3
TC_H_ROOT = 0xFFFFFFFF
TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_BASIC_HW = 7, 1, 3, 7


def up(gro):
    """gro: hosts merge the packets that arrive, as network cards do."""
    run("modprobe -a sch_tbf sch_netem sch_prio sch_ingress ifb act_mirred act_gact cls_matchall")
    for ns in (*NS, ROUTER):
        run(f"ip netns add {ns} && ip -n {ns} link set lo up")
    run(f"ip netns exec {ROUTER} sysctl -q net.ipv4.ip_forward=1")
    for index, (ns, veth, ip, port) in enumerate(zip(NS, VETH, IP, PORTS)):
        run(
            f"ip link add {veth} index {101 + index} mtu {MTU} netns {ns} "
            f"type veth peer name {port} mtu {MTU} netns {ROUTER}"
        )
        run(f"ip -n {ns} addr add {ip}/32 dev {veth} && ip -n {ns} link set {veth} up")
        run(f"ip -n {ROUTER} addr add {ROUTER_IP}/32 dev {port}")
        run(f"ip -n {ROUTER} link set {port} up && ip -n {ROUTER} route add {ip} dev {port}")
        run(f"ip -n {ns} route add {ROUTER_IP} dev {veth}")
        run(f"ip -n {ns} route add default via {ROUTER_IP}")
        # Known for good: on a wire that loses packets an address may not be found in time.
        know(ns, veth, ROUTER_IP, mac(ROUTER, port))
        know(ROUTER, port, ip, mac(ns, veth))
        if gro:
            run(f"ip netns exec {ns} ethtool -K {veth} gro on")


def mac(ns, netdev):
    return run(f"ip netns exec {ns} cat /sys/class/net/{netdev}/address").strip()


def know(ns, netdev, ip, address):
    run(f"ip -n {ns} neigh replace {ip} lladdr {address} dev {netdev} nud permanent")


def down():
    for ns in (*NS, ROUTER):
        run(f"ip netns del {ns}", check=False)


class Impaired:
    """with Impaired(scenario, seed) as wire: the router's queues are those of the scenario.
    wire.queue() has the state of the one that the data go through."""

    def __init__(self, scenario, seed):
        self.scenario, self.seed, self.socket = scenario, seed, None

    def __enter__(self):
        self.shape()
        if self.scenario.late:
            self.delay_some()
        self.socket = in_namespace(ROUTER, netlink)
        port = f"ip netns exec {ROUTER} cat /sys/class/net/{PORTS[1]}/ifindex"
        self.port = int(run(port))
        return self

    def __exit__(self, *_):
        self.socket.close()
        for port in PORTS:
            run(f"tc -n {ROUTER} qdisc del dev {port} root", check=False)
        if self.scenario.late:
            run(f"ip -n {NS[1]} link del {IFB}; tc -n {NS[1]} qdisc del dev {VETH[1]} ingress")

    def shape(self):
        """The queue that the data go through, and the one that the ACKs do. A tbf whose burst is
        less than a super-packet segments them, so that its queue, and a netem behind it, have
        packets. Its queue is bytes of packets only as long as no netem takes its place: so a delay
        beside it is on the way back, all of it."""
        wanted, parent = self.scenario, "root handle 1:"
        loss = f" loss {wanted.loss}%" if wanted.loss else ""
        delay = back = wanted.delay
        if wanted.packets:
            tbf = f"tbf rate {wanted.rate} burst 3000 limit {wanted.queue}"
            self.replace(PORTS[1], parent, tbf)
            parent, delay, back = "parent 1:1", 0, 2 * wanted.delay
        if loss or wanted.empty_netem or not wanted.packets:
            self.replace(PORTS[1], parent, netem(loss, delay, 2 * self.seed))
        self.replace(PORTS[0], "root handle 1:", netem(loss, back, 2 * self.seed + 1))

    @staticmethod
    def replace(port, parent, kind):
        run(f"tc -n {ROUTER} qdisc replace dev {port} {parent} {kind}")

    def delay_some(self):
        """One packet in a hundred arrives late, by up to so many times of a packet at the rate of
        the bottleneck behind which they come: it goes through a netem, the others do not."""
        ns, veth = NS[1], VETH[1]
        times = self.scenario.late * (MTU_PACKET * 8e6 / bits(self.scenario.rate))
        for command in (
            f"ip -n {ns} link add {IFB} type ifb",
            f"ip -n {ns} link set {IFB} up",
            f"tc -n {ns} qdisc add dev {IFB} root handle 1: prio bands 2 "
            "priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            f"tc -n {ns} qdisc add dev {IFB} parent 1:1 "
            f"netem limit 1000 delay {times / 2:.0f}us {times / 2:.0f}us seed {self.seed}",
            f"tc -n {ns} qdisc add dev {IFB} parent 1:2 pfifo limit 1000",
            # Most are done with the first filter, and have the second band by their priority; one
            # in a hundred goes on to the second filter, which has the class of the netem.
            f"tc -n {ns} filter add dev {IFB} parent 1: prio 1 matchall "
            "action gact pass random netrand continue 100",
            f"tc -n {ns} filter add dev {IFB} parent 1: prio 2 matchall classid 1:1",
            f"tc -n {ns} qdisc add dev {veth} ingress",
            f"tc -n {ns} filter add dev {veth} parent ffff: matchall "
            f"action mirred egress redirect dev {IFB}",
        ):
            run(command)

    def late(self):
        """Packets that have been late."""
        found = json.loads(run(f"tc -n {NS[1]} -s -j qdisc show dev {IFB}"))
        return sum(each["packets"] for each in found if each["kind"] == "netem")

    def queue(self):
        """Bytes that wait, packets that were dropped, packets and bytes that have passed."""
        return qdisc(self.socket, self.port)


# Bytes of a packet of path MTU 1024 with its headers: Ethernet, IPv4, UDP, BTH, ICRC.
MTU_PACKET = 1024 + 14 + 20 + 8 + 12 + 4


def netem(loss, delay, seed):
    return f"netem limit 100000{loss}" + (f" delay {delay}ms" if delay else "") + f" seed {seed}"


def bits(rate):
    """tc's rate as a number."""
    return float(rate[:-4]) * {"mbit": 1e6, "gbit": 1e9}[rate[-4:]]


def in_namespace(ns, function):
    """What the function makes, in that network namespace: sockets stay in it."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    try:
        os.setns(other, os.CLONE_NEWNET)
        return function()
    finally:
        os.setns(own, os.CLONE_NEWNET)
        os.close(own)
        os.close(other)


def netlink():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


def attributes(data):
    """Netlink attributes, by type."""
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def qdisc(sock, netdev):
    """See Impaired.queue. Asked for by netlink: a process for each sample would take the time of a
    hundred packets."""
    sock.send(
        struct.pack("=IHHII", 36, RTM_GETQDISC, NLM_F_DUMP_REQUEST, 1, 0)
        + struct.pack("=BxxxiIII", 0, netdev, 0, 0, 0)
    )
    found = None
    while True:
        data, at = sock.recv(65536), 0
        while at < len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind == NLMSG_DONE:
                return found
            _, index, _, parent, _ = struct.unpack_from("=BxxxiIII", data, at + 16)
            if index == netdev and parent == TC_H_ROOT:
                stats = attributes(attributes(data[at + 36 : at + length])[TCA_STATS2])
                byte_count, packets = struct.unpack_from("=QI", stats[TCA_STATS_BASIC])
                _, backlog, drops = struct.unpack_from("=III", stats[TCA_STATS_QUEUE])
                found = backlog, drops, packets, byte_count
            at += (length + 3) & ~3


def settle():
    """Let what is under way arrive."""
    time.sleep(0.2)
