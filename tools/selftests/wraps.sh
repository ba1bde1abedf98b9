#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 time=3600
#
# wire: numbers of packets and messages wrap around without harm. The longest messages that the port
# takes, 2 GiB less one byte, whose packets are half of all PSNs (py/longest.py); and more messages
# on one connection than an MSN can count, on the wire and on one device.
. "$(dirname "$0")/lib.sh"
hosts_up 4200
LIMIT_PY=1800 relay_py longest
MESSAGES=$(((1 << 24) + 200000))
LIMIT=1500 t "more WRITEs than MSNs on the wire" perf ib_write_bw 1 -s 8 -n $MESSAGES -Q 50 -t 200
LIMIT=1500 VIA=loop t "more SENDs than MSNs on one device" \
	perf ib_send_bw 1 -s 8 -n $MESSAGES -Q 50 -t 200 -r 500
finish
