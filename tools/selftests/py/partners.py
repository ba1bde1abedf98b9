# SPDX-License-Identifier: GPL-2.0
"""Which queue pairs are connected to each other: the test programs write it into a file, and the
judge of a capture reads it (cnps.py)."""

import ipaddress
import os


def address_of(gid):
    """The IP address of a GID of RoCE v2."""
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)


def note(gid_a, qpn_a, gid_b, qpn_b):
    """A connection between two queue pairs, into the file that the variable PAIRS names, if it does
    so."""
    if "PAIRS" in os.environ:
        with open(os.environ["PAIRS"], "a", encoding="ascii") as file:
            print(address_of(gid_a), qpn_a, address_of(gid_b), qpn_b, file=file)


def read(path):
    """The partners that each queue pair has had: (address, number) to a set of such pairs. A number
    may be used again."""
    found = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            address_a, qpn_a, address_b, qpn_b = line.split()
            a, b = (address_a, int(qpn_a)), (address_b, int(qpn_b))
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
    return found
