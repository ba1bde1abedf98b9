#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What must fail, and how: completion statuses, flushing, retries, overflow of a CQ, datagrams that must be dropped
# (py/errors.py); states and attributes, limits, memory that cannot be registered (py/misuse.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py errors
relay_py misuse
finish
