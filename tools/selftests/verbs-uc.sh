#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: unreliable connections carry messages of each size whole or not at all. ibv_uc_pingpong
# between two hosts and on one device, with path MTUs, busy polling and events, IPv4 and IPv6; then
# messages (py/uc.py), what becomes of lost ones, and errors (py/uc_errors.py).
. "$(dirname "$0")/lib.sh"
hosts_up 9000

for size in 1 63 1024 4096 65537 1000003; do
	t "UC pingpong of $size bytes" pingpong uc "$GID4_A" "$GID4_B" -n 20 -e -s $size
done
for mtu in 256 1024 4096; do
	t "UC pingpong at path MTU $mtu" pingpong uc "$GID4_A" "$GID4_B" -n 50 -m $mtu -s 9001 -e
done
t "UC pingpong over IPv6" pingpong uc "$GID6_A" "$GID6_B" -n 100 -e
t "UC pingpong, busy polling" pingpong uc "$GID4_A" "$GID4_B" -n 200
t "UC pingpong on one device, events" pingpong uc "$GID4_A" self -n 100 -e
t "UC pingpong on one device, polling, 256 KiB" pingpong uc "$GID4_A" self -n 30 -s 262144
relay_py uc
relay_py uc_errors
finish
