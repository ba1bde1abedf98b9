#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: det=1 time=1800
#
# wire: no more is sent than a slow queue has room for, and the queue is used to more than 90 %. A
# queue of 100 Mb/s drops what waits for long, another refuses packets; a peer asks for sixteen
# READs at once (py/backlog.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_A NS_B VETH_A
relay_py backlog
finish
