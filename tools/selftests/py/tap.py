# SPDX-License-Identifier: GPL-2.0
"""Packets from a tap, as of a virtual machine.

Super-packets of another kind than UDP's: they say that there is a tunnel in the datagram, and how
long the segments inside are. The kernel hands them to a tunnel's socket whole. And packets to a
netdev that has no device.
"""

import fcntl
import os
import struct

import roce
from oxetest import counters, main, same, until

NS, TAP, DEVICE = os.environ["NS_A"], os.environ["TAP"], os.environ["DEV_TAP"]
SOURCE, DESTINATION = "10.78.0.2", os.environ["IP4_TAP"]

# linux/if_tun.h
TUNSETIFF, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D8
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
# linux/virtio_net.h: struct virtio_net_hdr_v1_hash_tunnel
NEEDS_CSUM, GSO_TCPV4, GSO_UDP_TUNNEL_IPV4 = 1, 1, 0x20
HEADER = 24
ETHER, OUTER_UDP, INNER_IP, INNER_TCP = 14, 34, 42, 62


def open_tap():
    tap = os.open("/dev/net/tun", os.O_RDWR)
    request = struct.pack("16sH22x", TAP.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    fcntl.ioctl(tap, TUNSETIFF, request)
    fcntl.ioctl(tap, TUNSETVNETHDRSZ, struct.pack("i", HEADER))
    return tap


def frame(payload, each=0):
    """A datagram of these bytes; `each`: said to be a tunnel's, with segments of so many bytes."""
    mac = bytes.fromhex(os.environ["MAC_TAP"].replace(":", ""))
    ip = bytearray(roce.ipv4(SOURCE, DESTINATION, 8 + len(payload), 1))
    ip[10:12] = struct.pack("!H", roce.ones_sum(ip) ^ 0xFFFF)
    udp = struct.pack("!HHHH", 49152, roce.PORT, 8 + len(payload), 0)
    if not each:
        return bytes(HEADER) + mac + b"\x02\0\0\0\0\x01\x08\x00" + ip + udp + payload
    wanted = struct.pack(
        "<BBHHHHHLHHHH",
        NEEDS_CSUM,
        GSO_TCPV4 | GSO_UDP_TUNNEL_IPV4,
        INNER_TCP + 20,
        each,
        INNER_TCP,
        16,
        *(0, 0, 0, 0),
        OUTER_UDP,
        INNER_IP,
    )
    return wanted + mac + b"\x02\0\0\0\0\x01\x08\x00" + ip + udp + payload


def one_datagram():
    """F8: a tunnel's super-packet is parsed once, and not for each of thousands of segments."""
    tap = roce.in_namespace(NS, open_tap)
    for each in (1, 8, 16, 1000):
        before = counters(DEVICE)
        payload = (roce.bth(roce.SEND_ONLY, 0x123456, 0) + bytes(60000))[:60000]
        os.write(tap, frame(payload, each))
        until(lambda seen=before: counters(DEVICE)["rcvd_pkts"] > seen["rcvd_pkts"], "a packet")
        after = counters(DEVICE)
        same(after["rcvd_pkts"] - before["rcvd_pkts"], 1, f"packets, of segments of {each}")
        same(after["rcvd_bad_icrc"] - before["rcvd_bad_icrc"], 1, "bad ICRCs")
    os.close(tap)


def no_ports():
    """How many datagrams of IPv4 found no socket in this network namespace."""
    with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
        names, values = [line.split() for line in file if line.startswith("Udp:")]
    return int(values[names.index("NoPorts")])


def no_device():
    """F17: packets that come by a netdev without a device are counted, as by UDP."""
    os.system(f"rdma link del {DEVICE}")
    tap = roce.in_namespace(NS, open_tap)
    before = roce.in_namespace(NS, no_ports)
    for _ in range(5):
        os.write(tap, frame(roce.bth(roce.SEND_ONLY, 0x123456, 0) + bytes(100)))
    until(lambda: roce.in_namespace(NS, no_ports) >= before + 5, "packets without a port")
    same(roce.in_namespace(NS, no_ports) - before, 5, "packets without a port")
    os.close(tap)


CASES = [
    ("a tunnel's super-packet is one datagram", one_datagram),
    ("packets by a netdev without a device are counted", no_device),
]

if __name__ == "__main__":
    main(CASES)
