#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: det=1 time=1800
#
# A slow wire behind a queue: no more is sent than the queue has room for (py/backlog.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_A NS_B VETH_A
relay_py backlog
finish
