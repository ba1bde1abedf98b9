# SPDX-License-Identifier: GPL-2.0
"""Multicast: datagrams to a group reach each queue pair that is attached to it once, on either host,
and no other one.

Usage: mcast.py [case...]. With DEV_B = DEV_A both ends are on one device.
"""

import errno
import ipaddress
import os
import random
import re
import signal
import socket
import struct
import subprocess

import enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute

import roce
from events import functions_called
from oxetest import (
    DEV_A,
    DEV_B,
    GID6_A,
    GID6_B,
    GID_A,
    GID_B,
    QKEY,
    End,
    Host,
    Skip,
    ah_to,
    counters,
    errno_of,
    gid_object,
    good,
    main,
    none_pending,
    poll,
    same,
    shut,
    until,
)

GROUP_QPN = 0xFFFFFF
ATTACH, DETACH = 30, 31  # IB_USER_VERBS_CMD_ATTACH_MCAST, _DETACH_MCAST
GROUPS = {"IPv4": ("239.1.2.3", "239.1.2.4"), "IPv6": ("ff15::77:1", "ff15::77:2")}
GIDS = {"IPv4": (GID_A, GID_B), "IPv6": (GID6_A, GID6_B)}
NS_A, NS_B = os.environ.get("NS_A", "oxt-a"), os.environ.get("NS_B", "oxt-b")
VETH_A = os.environ.get("VETH_A", "oxva")


def packed(group):
    """The GID of a group."""
    address = ipaddress.ip_address(group)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


class Member(End):
    """A UD queue pair on an opened device of its own, whose commands are written by hand."""

    def __init__(self, name, gid, **kw):
        super().__init__(Host(name, gid), kw.pop("kind", e.IBV_QPT_UD), **kw)
        self.handle, self.groups = None, []
        if self.type == e.IBV_QPT_UD:
            self.to_init()
            self.to_rtr(None, 0)
            self.to_rts()

    def command(self, number, group, handle):
        body = struct.pack("<16sIHH", packed(group), handle, 0, 0)
        header = struct.pack("<IHH", number, (8 + len(body)) // 4, 0)
        os.write(self.host.ctx.cmd_fd, header + body)

    def attach(self, group):
        """Attaches the queue pair. Its handle is the one that may be attached."""
        if self.handle is None:
            found = (h for h in range(64) if errno_of(self.command, ATTACH, group, h) == 0)
            self.handle = next(found)
        else:
            self.command(ATTACH, group, self.handle)
        if group not in self.groups:
            self.groups.append(group)

    def detach(self, group):
        self.command(DETACH, group, self.handle)
        self.groups.remove(group)

    def to(self, group):
        route = GlobalRoute(
            dgid=gid_object(":".join(re.findall("....", packed(group).hex()))),
            sgid_index=self.host.gid,
            hop_limit=8,
        )
        return AH(self.host.pd, attr=AHAttr(port_num=1, is_global=1, gr=route, dlid=0))

    def tell(self, group, text, qkey=QKEY, qpn=GROUP_QPN):
        self.mr.write(text, len(text))
        self.send(e.IBV_WR_SEND, self.sge(len(text)), ah=(self.to(group), qpn, qkey))
        good(poll(self.cq))

    def listen(self, count=4):
        for n in range(count):
            self.recv(self.sge(2000, 4096 * (n + 1)), wr_id=n)

    def hears(self, text, source=None):
        """The next datagram has this text."""
        (wc,) = good(poll(self.rcq))
        same(self.mr.read(len(text), 4096 * (wc.wr_id + 1) + 40), text.encode(), "the text")
        same(wc.byte_len, 40 + len(text), "the length")
        if source is not None:
            same(wc.src_qp, source.qp.qp_num, "the source")
        return self.mr.read(40, 4096 * (wc.wr_id + 1))


def leave(*ends):
    """An attached queue pair cannot be destroyed: EBUSY."""
    for end in ends:
        for group in list(end.groups):
            end.detach(group)
    shut(*ends)


def members(network, at_a=1, at_b=2):
    gids = GIDS[network]
    return [Member(DEV_A, gids[0]) for _ in range(at_a)], [
        Member(DEV_B, gids[1]) for _ in range(at_b)
    ]


def joined(group, namespace=NS_A, netdev=VETH_A):
    """Whether the netdev takes packets to the group: to its Ethernet address (RFC 1112, 2464), as a
    kernel may not list groups of IPv4."""
    text = subprocess.run(
        ["ip", "-n", namespace, "maddr", "show", "dev", netdev],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    address = packed(group)
    low = bytes((address[13] & 0x7F,)) + address[14:]
    mac = b"\x33\x33" + address[12:] if address[0] == 0xFF else b"\x01\x00\x5e" + low
    return mac.hex(":") in text.split()


def everyone(network):
    """All members get it once, the sender too if it is one; the header before the payload names the
    group."""
    group, other = GROUPS[network]
    (a,), (b, c) = members(network)
    outsider = Member(DEV_B, GIDS[network][1])
    for member in (a, b, c):
        member.attach(group)
        member.listen()
    outsider.attach(other)
    outsider.listen()
    for n in range(3):
        a.tell(group, f"hello {n}")
        for member in (a, b, c):
            grh = member.hears(f"hello {n}", a)
            address = ipaddress.ip_address(group).packed
            same(grh[40 - len(address) :], address, "the destination in the GRH area")
    b.tell(group, "from b")
    for member in (a, b, c):
        member.hears("from b", b)
    for member in (a, b, c, outsider):
        none_pending(member.rcq)
    leave(a, b, c, outsider)


def sender_outside(network):
    """The sender need not be attached; then it gets nothing."""
    group = GROUPS[network][0]
    (a,), (b, c) = members(network)
    for member in (a, b, c):
        member.listen()
    for member in (b, c):
        member.attach(group)
    a.tell(group, "one")
    for member in (b, c):
        member.hears("one", a)
    b.detach(group)
    a.tell(group, "two")
    c.hears("two", a)
    for member in (a, b, c):
        none_pending(member.rcq)
    leave(a, b, c)


def membership(network):
    """The netdev joins a group with the first queue pair and leaves it with the last one, whichever
    way that goes."""
    group, other = GROUPS[network]
    same(joined(group), False, "before")
    (a, b), _ = members(network, 2, 0)
    a.attach(group)
    b.attach(group)
    b.attach(other)
    same((joined(group), joined(other)), (True, True), "attached")
    a.detach(group)
    same(joined(group), True, "with one left")
    b.detach(group)
    same(joined(group), False, "without any")
    a.attach(group)
    same(errno_of(a.qp.close), errno.EBUSY, "destroyed while attached")
    leave(a, b)
    same((joined(group), joined(other)), (False, False), "without any queue pair")
    pid = os.fork()
    if not pid:
        Member(DEV_A, GIDS[network][0]).attach(group)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: not joined(group), "the end of the membership of a killed process")


def refused(network):
    group = GROUPS[network][0]
    (a,), _ = members(network, 1, 0)
    a.attach(group)
    # ib_uverbs takes a second attachment of the same queue pair for the first one.
    same(errno_of(a.attach, group), 0, "attached twice")
    other = GROUPS[network][1]
    same(errno_of(a.detach, other), errno.EINVAL, "detached from another group")
    a.detach(group)
    same(errno_of(a.detach, group), errno.EINVAL, "detached twice")
    unicast = "10.1.2.3" if network == "IPv4" else "fd77::1"
    same(errno_of(a.attach, unicast), errno.EINVAL, "no group")
    rc = Member(DEV_A, GIDS[network][0], kind=e.IBV_QPT_RC)
    numbers = {errno_of(rc.command, ATTACH, group, handle) for handle in range(64)}
    same(numbers, {errno.EINVAL, errno.ENOENT}, "an RC queue pair, and handles of nothing")
    same(joined(group), False, "a membership")
    leave(a, rc)


def limits(network):
    """Root may have four times as many groups as the device says, and no more."""
    (a,), _ = members(network, 1, 0)
    most = 4 * a.host.ctx.query_device().max_mcast_grp
    base = int(ipaddress.ip_address(GROUPS[network][0])) + 16
    kind = ipaddress.IPv4Address if network == "IPv4" else ipaddress.IPv6Address
    count = 0
    while count <= most:
        number = errno_of(a.attach, str(kind(base + count)))
        if number:
            break
        count += 1
    same((count, number), (most, errno.ENOMEM), "groups, and the errno of the next one")
    a.detach(str(kind(base)))
    a.attach(str(kind(base + count)))
    leave(a)
    same(joined(str(kind(base + 1))), False, "a membership")


def charged():
    """No memory that a cgroup pays for is allocated under RTNL (F6): an allocation of a process at
    the limit of its cgroup takes long, and whoever changes the machine's network would wait."""
    cgroup = os.environ["CGROUP"]
    if not cgroup:
        raise Skip("a kernel without memory cgroups")
    with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    (a,), _ = members("IPv4", 1, 0)
    charge = "__memcg_slab_post_alloc_hook"
    calls = functions_called(
        ["rtnl_lock", "rtnl_unlock", charge],
        lambda: [a.attach(f"239.1.3.{n}") for n in range(1, 40)],
    )
    if calls is None:
        raise Skip("a kernel that cannot trace these functions")
    locked, charges, under = 0, 0, 0
    for name in calls:
        locked += {"rtnl_lock": 1, "rtnl_unlock": -1}.get(name, 0)
        charges += name == charge
        under += name == charge and locked > 0
    same("rtnl_lock" in calls, True, f"the lock is taken: {calls[:20]}")
    same(charges > 0, True, "something is charged")
    same(under, 0, f"of {charges} charged allocations, those under RTNL")
    leave(a)


def many_members(network="IPv4", size=40):
    """A sender, so many members on one device, and their group, for leave_many."""
    group = GROUPS[network][0]
    (sender,), (first,) = members(network, 1, 1)
    ends = [first] + [End(first.host, e.IBV_QPT_UD, size=4096) for _ in range(size - 1)]
    first.attach(group)
    for end in ends[1:]:
        end.to_init()
        end.to_rtr(None, 0)
        end.to_rts()
        # Handles count all objects of a context. A second attachment succeeds as well.
        tries = (h for h in range(300) if h not in taken(ends))
        end.handle = next(h for h in tries if errno_of(first.command, ATTACH, group, h) == 0)
    return sender, ends, group


def leave_many(sender, ends, group):
    first = ends[0]
    for end in ends[1:]:
        first.command(DETACH, group, end.handle)
    leave(sender, first)


def many(network):
    """A group of more queue pairs than get its packets in one softirq (F5)."""
    sender, ends, group = many_members(network)
    for end in ends:
        end.recv(end.sge(2000))
    sender.tell(group, "to all")
    for end in ends:
        (wc,) = good(poll(end.rcq))
        same(wc.src_qp, sender.qp.qp_num, "the source")
        same(end.mr.read(6, 40), b"to all", "the text")
    leave_many(sender, ends, group)


def taken(ends):
    return {getattr(end, "handle", None) for end in ends}


def lost(network):
    """Datagrams that a member does not take are no one else's loss."""
    group = GROUPS[network][0]
    (a,), (b, c) = members(network)
    for member in (b, c):
        member.attach(group)
    c.listen()
    b.recv(b.sge(41, 4096))
    a.tell(group, "too long for b")
    c.hears("too long for b")
    a.tell(group, "x")
    c.hears("x")
    good(poll(b.rcq))
    a.tell(group, "no receive at b")
    c.hears("no receive at b")
    b.listen()
    a.tell(group, "wrong Q_Key", qkey=QKEY + 1)
    a.tell(group, "right")
    b.hears("right")
    c.hears("right")
    for member in (b, c):
        none_pending(member.rcq)
    leave(a, b, c)


def mixed_up(network):
    """A group's address with a QP number, and the number of multicast with an address that is none:
    both are dropped."""
    group = GROUPS[network][0]
    (a,), (b,) = members(network, 1, 1)
    b.attach(group)
    b.listen()
    before = counters(DEV_B)
    a.tell(group, "to one", qpn=b.qp.qp_num)
    a.send(e.IBV_WR_SEND, a.sge(6), ah=(ah_to(a.host, b.host), GROUP_QPN, QKEY))
    good(poll(a.cq))
    # On one device the second one takes no packet: no queue pair has the number.
    rise = (
        {"rcvd_wrong_address": 2} if DEV_A != DEV_B else {"rcvd_wrong_address": 1, "rcvd_no_qp": 1}
    )
    for name, count in rise.items():
        until(lambda n=name, c=count: counters(DEV_B)[n] >= before[n] + c, name)
    none_pending(b.rcq)
    a.tell(group, "right")
    b.hears("right")
    leave(a, b)


def noise(network):
    """Packets of every opcode, and of random bytes, to a group."""
    group = GROUPS[network][0]
    rng = random.Random(7)
    (a,), _ = members(network, 1, 0)
    a.attach(group)
    a.listen()
    attacker = roce.Sender(NS_B, os.environ["IP4_B"], group)
    attacker.socket.setsockopt(
        socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(os.environ["IP4_B"])
    )
    for opcode in range(256):
        body = roce.bth(opcode, GROUP_QPN, opcode) + rng.randbytes(rng.randrange(0, 80))
        attacker.send(body)
        attacker.raw(rng.randbytes(rng.randrange(0, 200)))
    attacker.send(roce.bth(0x64, GROUP_QPN, 1) + roce.deth(QKEY, 99) + b"good")
    a.hears("good")
    none_pending(a.rcq)
    leave(a)


CASES = [
    (f"multicast: {name}, {network}", function, network)
    for network in GROUPS
    for name, function in (
        ("every member", everyone),
        ("a sender outside of the group", sender_outside),
        ("membership of the netdev", membership),
        ("what is refused", refused),
        ("many members", many),
        ("lost datagrams", lost),
        ("wrong destinations", mixed_up),
    )
]
if DEV_A != DEV_B:
    CASES += [("multicast: memory and RTNL", charged)]
    CASES += [("multicast: noise", noise, "IPv4"), ("multicast: limits", limits, "IPv4")]

if __name__ == "__main__":
    main(CASES)
