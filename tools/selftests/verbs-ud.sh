#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: datagrams of each size that the path carries arrive. ibv_ud_pingpong between two hosts:
# events, IPv4 and IPv6, one device. UD loses datagrams that find no buffer, so the counts stay
# below the receive depth.
# vm: gids=1024
. "$(dirname "$0")/lib.sh"
hosts_up 9000

for size in 1 2 3 4 1023 2048 4096; do
	t "UD pingpong of $size bytes" pingpong ud "$GID4_A" "$GID4_B" -n 50 -e -s $size
done
t "UD pingpong over IPv6" pingpong ud "$GID6_A" "$GID6_B" -n 100 -e
t "UD pingpong, busy polling" pingpong ud "$GID4_A" "$GID4_B" -n 200
t "UD pingpong on one device" pingpong ud "$GID4_A" self -n 100 -e
finish
