#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The work of timers, and their number (py/timers.py): an expired one only queues work; queue pairs
# in the error state share one. And which process works for a process that sends datagrams
# (py/charge.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py timers
relay_py charge
finish
