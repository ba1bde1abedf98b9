#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes icrc.txt: RoCEv2 frames whose ICRCs were computed by scapy.contrib.roce.

Usage: make-vectors.py > icrc.txt

The output is checked in, so that the tests need neither python nor scapy; it depends on nothing
but this file, so that a second run gives the same bytes. One frame a line:

    name udp-payload-length payload-length pad frame-in-hex

The frame starts with the Ethernet header, which may hold a VLAN tag, and ends with the ICRC.
"""

import sys

try:
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, IPOption_Router_Alert, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw
except ImportError:
    sys.exit("make-vectors: scapy is missing; install it with: pip install scapy")

# opcode, bytes of extended headers, whether it carries payload
OPCODES = {
    "rc-send-first": (0x00, 0, True),
    "rc-send-only": (0x04, 0, True),
    "rc-send-only-imm": (0x05, 4, True),
    "rc-write-only": (0x0A, 16, True),
    "rc-write-only-imm": (0x0B, 20, True),
    "rc-read-request": (0x0C, 16, False),
    "rc-read-response-only": (0x10, 4, True),
    "rc-ack": (0x11, 4, False),
    "rc-atomic-ack": (0x12, 12, False),
    "rc-compare-swap": (0x13, 28, False),
    "rc-send-only-inv": (0x17, 4, True),
    "uc-send-only": (0x24, 0, True),
    "ud-send-only": (0x64, 8, True),
    "ud-send-only-imm": (0x65, 12, True),
    "cnp": (0x81, 16, False),
}

SIZES = [0, 1, 2, 3, 4, 5, 63, 64, 255, 256, 1021, 1024, 4096]


class Counter:
    """A reproducible stream of bytes, different from frame to frame."""

    def __init__(self, seed):
        self.state = seed

    def take(self, count):
        out = bytearray()
        for _ in range(count):
            self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
            out.append(self.state >> 16 & 0xFF)
        return bytes(out)

    def number(self, bits):
        return int.from_bytes(self.take(8), "big") & ((1 << bits) - 1)


def network(kind, rnd):
    """The IP header, with arbitrary values in every field that is masked and some that are not."""
    if kind == "ipv6":
        return IPv6(
            src="2001:db8::%x" % rnd.number(16),
            dst="fe80::%x" % rnd.number(16),
            tc=rnd.number(8),
            fl=rnd.number(20),
            hlim=rnd.number(8),
        )
    options = [IPOption_Router_Alert()] if kind == "ipv4opt" else []
    return IP(
        src="192.0.2.%d" % rnd.number(8),
        dst="198.51.100.%d" % rnd.number(8),
        tos=rnd.number(8),
        ttl=rnd.number(8),
        id=rnd.number(16),
        flags="DF" if rnd.number(1) else 0,
        options=options,
    )


def frame(name, kind, vlan, size, rnd):
    opcode, ext_len, has_payload = OPCODES[name]
    size = size if has_payload else 0
    pad = -size % 4
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    if vlan:
        ether = ether / Dot1Q(vlan=rnd.number(12), prio=rnd.number(3))
    bth = BTH(
        opcode=opcode,
        solicited=rnd.number(1),
        migreq=rnd.number(1),
        padcount=pad,
        pkey=rnd.number(16),
        fecn=rnd.number(1),
        becn=rnd.number(1),
        dqpn=rnd.number(24),
        ackreq=rnd.number(1),
        psn=rnd.number(24),
    )
    # Raw bytes, so that scapy's own classes for the headers cannot get them wrong or add to them.
    rest = rnd.take(ext_len + size + pad)
    packet = ether / network(kind, rnd) / UDP(sport=0xC000 | rnd.number(14), dport=4791) / bth
    packet = packet / Raw(rest)
    return bytes(packet), 8 + 12 + ext_len + size + pad + 4 - 8, size, pad


def main():
    rnd = Counter(20260101)
    print("# SPDX-License-Identifier: GPL-2.0")
    print("# Written by make-vectors.py; see there for the format.")
    for kind in ("ipv4", "ipv6", "ipv4opt"):
        for vlan in (False, True):
            for name, (_, _, has_payload) in OPCODES.items():
                if name == "cnp":
                    continue
                # The long ones once a network are enough: the file is to stay readable.
                every = name == "rc-send-only" and not vlan and kind != "ipv4opt"
                sizes = SIZES if every else SIZES[:6] + [64 + rnd.number(6)]
                for size in sizes if has_payload else [0]:
                    data, udp_len, size, pad = frame(name, kind, vlan, size, rnd)
                    label = "-".join([kind, "vlan" if vlan else "plain", name])
                    print(label, udp_len, size, pad, data.hex())
    # Added later, behind the others, which stay as they were.
    for kind in ("ipv4", "ipv6"):
        data, udp_len, size, pad = frame("cnp", kind, False, 0, rnd)
        print(f"{kind}-plain-cnp", udp_len, size, pad, data.hex())


main()
