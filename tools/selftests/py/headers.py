# SPDX-License-Identifier: GPL-2.0
"""Traffic class, hop limit and service level of address vectors, as they arrive on host B's netdev.

"send SL...": instead, one datagram with each of these service levels goes from host A to B, by an
address handle of its own.
"""

import os
import socket
import struct
import subprocess
import sys
import time

import enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

import roce
from oxetest import (
    GID6_A,
    GID6_B,
    QKEY,
    SLOW,
    End,
    gid_object,
    good,
    host_a,
    host_b,
    main,
    poll,
    same,
    shut,
)

SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 1 << 4
PEER = 0xABCDEF  # no QP of this number: what arrives is looked at, and dropped


class Wire:
    """The packets that come to host B's netdev."""

    def __init__(self):
        def make():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            made.bind((os.environ["VETH_B"], 3))
            made.settimeout(0.2)
            return made

        self.socket = roce.in_namespace(os.environ["NS_B"], make)

    def packet(self):
        """Traffic class, hop limit and PCP (None without a VLAN tag) of the next packet for
        PEER."""
        end = time.monotonic() + 60 * SLOW
        while time.monotonic() < end:
            try:
                frame, extra, _, _ = self.socket.recvmsg(4096, 256)
            except TimeoutError:
                continue
            (kind,) = struct.unpack_from("!H", frame, 12)
            ip, tag = frame[14:], None
            for level, name, data in extra:
                if (level, name) == (SOL_PACKET, PACKET_AUXDATA):
                    (known,) = struct.unpack_from("=I", data)
                    if known & VLAN_VALID:
                        (tag,) = struct.unpack_from("=H", data, 16)
            if kind == 0x8100:
                tag, kind = struct.unpack_from("!HH", frame, 14)
                ip = frame[18:]
            head = 20 if kind == 0x0800 else 40
            if (
                kind not in (0x0800, 0x86DD)
                or ip[9 if head == 20 else 6] != 17
                or ip[head + 2 : head + 4] != b"\x12\xb7"
            ):
                continue
            if int.from_bytes(ip[head + 13 : head + 16], "big") != PEER:
                continue
            pcp = None if tag is None else tag >> 13
            if head == 20:
                return ip[1], ip[8], pcp
            return (struct.unpack_from("!I", ip)[0] >> 20) & 0xFF, ip[7], pcp
        raise AssertionError("no packet came")


def vector(host, peer, sl=0, **grh):
    route = GlobalRoute(dgid=gid_object(peer.gid_value()), sgid_index=host.gid, **grh)
    return AHAttr(port_num=1, is_global=1, gr=route, dlid=0, sl=sl)


def datagrams(host):
    end = End(host, e.IBV_QPT_UD)
    end.to_init()
    end.to_rtr(None, 0)
    end.to_rts()
    return end


def send(end, peer, **given):
    """A datagram by a new address handle."""
    ah = AH(end.host.pd, attr=vector(end.host, peer, **given))
    end.send(e.IBV_WR_SEND, end.sge(100), ah=(ah, PEER, QKEY))
    good(poll(end.cq))
    ah.close()


def of_datagram(gids, index, **given):
    """That part of a datagram's headers."""
    a, b, wire = host_a(gids[0]), host_b(gids[1]), Wire()
    end = datagrams(a)
    send(end, b, **given)
    found = wire.packet()[index]
    end.close()
    shut(end)
    b.close()
    return found


def of_connection(gids, index, **given):
    """As of_datagram, of a connection's packet."""
    a, b, wire = host_a(gids[0]), host_b(gids[1]), Wire()
    end = End(a)
    end.to_init()
    attr = QPAttr(port_num=1)
    attr.qp_state, attr.ah_attr, attr.path_mtu = (
        e.IBV_QPS_RTR,
        vector(a, b, **given),
        e.IBV_MTU_1024,
    )
    attr.dest_qp_num, attr.rq_psn, attr.max_dest_rd_atomic, attr.min_rnr_timer = PEER, 0, 1, 12
    end.qp.modify(
        attr,
        e.IBV_QP_STATE
        | e.IBV_QP_AV
        | e.IBV_QP_PATH_MTU
        | e.IBV_QP_DEST_QPN
        | e.IBV_QP_RQ_PSN
        | e.IBV_QP_MAX_DEST_RD_ATOMIC
        | e.IBV_QP_MIN_RNR_TIMER,
    )
    end.to_rts(timeout=0)
    end.send(e.IBV_WR_SEND, end.sge(100))
    found = wire.packet()[index]
    end.close()
    shut(end)
    b.close()
    return found


V4, V6 = (None, None), (GID6_A, GID6_B)
VLAN = tuple(int(os.environ.get(name, "0")) for name in ("GIDV_A", "GIDV_B"))


def each(gids, index, name, pairs):
    for read in (of_datagram, of_connection):
        for given, want in pairs:
            same(read(gids, index, **{name: given}), want, f"{read.__name__}, {name} {given}")


def traffic_class(gids):
    each(gids, 0, "traffic_class", [(0xFF, 0xFC), (0x03, 0), (0x68, 0x68), (0x01, 0), (0xBA, 0xB8)])


def hop_limit(gids, version, net):
    """ib_core puts the route's hop limit in place of a process's."""
    route = [
        "ip",
        version,
        "-n",
        os.environ["NS_A"],
        "route",
        "replace",
        net,
        "dev",
        os.environ["VETH_A"],
        "metric",
        "1",
        "hoplimit",
    ]
    for limit in (1, 2, 255, 64):
        subprocess.run(route + [str(limit)], check=True)
        each(gids, 1, "hop_limit", [(0, limit)])


def service_level():
    each(VLAN, 2, "sl", [(5, 5), (6, 6), (0, 0)])


def no_such_priority():
    each(VLAN, 2, "sl", [(4, 0), (7, 0)])


def packet_type():
    """0x8 | 5 is no service level of 5."""
    each(VLAN, 2, "sl", [(13, 0), (9, 0), (10, 0), (15, 0)])


def by_traffic_class():
    """Priority 2 of the network stack goes with traffic class 8, and PCP 6 with that; a service
    level comes first."""
    same(of_datagram(VLAN, 2, traffic_class=8), 6, "PCP of traffic class 8")
    same(of_datagram(VLAN, 2, traffic_class=8, sl=5), 5, "PCP of traffic class 8, service level 5")
    same(
        of_datagram(VLAN, 2, traffic_class=8, sl=13),
        6,
        "PCP of traffic class 8 and a packet's type",
    )


def no_vlan():
    each(V4, 2, "sl", [(5, None)])


CASES = [
    ("a process's traffic class, without its ECN bits", traffic_class, V4),
    ("a process's traffic class over IPv6, without its ECN bits", traffic_class, V6),
    ("hop limit 1 stays 1", hop_limit, V4, "-4", "10.77.0.2/32"),
    ("hop limit 1 stays 1 over IPv6", hop_limit, V6, "-6", "fd77::2/128"),
    ("the service level is a VLAN's priority", service_level),
    ("a service level for which the VLAN has no priority is ignored", no_such_priority),
    ("a packet type from a completion is no priority", packet_type),
    ("the traffic class decides where no service level does", by_traffic_class),
    ("without a VLAN there is no tag", no_vlan),
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        ud, to = datagrams(host_a()), host_b()
        for level in sys.argv[2:]:
            send(ud, to, sl=int(level))
        shut(ud)
    else:
        main(CASES)
