#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What must fail, and how: completion statuses, flushing, retries, overflow of a CQ, datagrams that must be dropped
# (py/errors.py); a peer without a route (py/unreachable.py); states and attributes, limits, memory that cannot be registered
# (py/misuse.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py errors
export NS_A NS_B
relay_py unreachable
relay_py misuse
finish
