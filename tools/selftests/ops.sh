#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: every operation of RC and UD leaves the memory of both sides as it should. py/ops.py,
# py/datagrams.py: opcodes, sizes, gather and scatter, inline, fences, PSN wrap, random programs;
# IPv4, IPv6, one device. ATOMIC WRITE and FLUSH, and how they are refused (py/placement.py).
. "$(dirname "$0")/lib.sh"
hosts_up 4200
relay_py ops
relay_py datagrams
relay_py placement
finish
