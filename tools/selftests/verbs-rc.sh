#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: reliable connections carry messages of each size, with the data checked. ibv_rc_pingpong
# between two hosts: path MTUs, receive depths, busy polling and completion events, IPv4 and IPv6
# GIDs, and both ends on one device. The program checks the data itself (-c).
. "$(dirname "$0")/lib.sh"
hosts_up 9000

for size in 1 63 1024 4096 65537 1000003; do
	t "RC pingpong of $size bytes, data checked" pingpong rc "$GID4_A" "$GID4_B" -c -n 20 -e -s $size
done
for mtu in 256 512 1024 2048 4096; do
	t "RC pingpong at path MTU $mtu" pingpong rc "$GID4_A" "$GID4_B" -c -n 50 -m $mtu -s 9001 -e
done
t "RC pingpong over IPv6" pingpong rc "$GID6_A" "$GID6_B" -c -n 100 -e
t "RC pingpong, busy polling" pingpong rc "$GID4_A" "$GID4_B" -c -n 200
t "RC pingpong, one receive buffer" pingpong rc "$GID4_A" "$GID4_B" -c -n 50 -r 1 -e
t "RC pingpong, a thousand receive buffers" \
	pingpong rc "$GID4_A" "$GID4_B" -c -n 1500 -r 1000 -e -s 256
t "RC pingpong on one device, events" pingpong rc "$GID4_A" self -c -n 100 -e
t "RC pingpong on one device, polling, 256 KiB" pingpong rc "$GID4_A" self -c -n 30 -s 262144
finish
