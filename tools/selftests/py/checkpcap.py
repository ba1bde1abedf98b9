# SPDX-License-Identifier: GPL-2.0
"""Recompute the ICRC of every RoCEv2 packet in a capture with scapy's implementation, which is
nobody's here.

Usage: checkpcap.py FILE. Prints the count by IP version and opcode; fails on a wrong ICRC or
without a packet.
"""

import collections
import sys

from scapy.config import conf

conf.verb = 0
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.utils import PcapReader

seen, wrong = collections.Counter(), []
for number, packet in enumerate(PcapReader(sys.argv[1]), 1):
    if BTH not in packet or packet[UDP].dport != 4791:
        continue
    seen[4 if IP in packet else 6, packet[BTH].opcode] += 1
    wire = bytes(packet)[-4:]
    if packet[BTH].compute_icrc(b"") != wire:
        wrong.append((number, packet.summary(), wire.hex()))
for (version, opcode), count in sorted(seen.items()):
    print(f"{version} {opcode:#04x} {count}")
for number, summary, wire in wrong[:10]:
    print(f"packet {number}: wrong ICRC {wire}: {summary}")
sys.exit(bool(wrong) or not seen)
