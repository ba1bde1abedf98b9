#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ibv_ud_pingpong between two hosts: sizes up to what the path carries, events, IPv4 and IPv6, one
# device. UD loses datagrams that find no buffer, so the counts stay below the receive depth.
# vm: gids=1024
. "$(dirname "$0")/lib.sh"
hosts_up 9000

pingpong() { # GID-A GID-B OPTION...
	local a=$1 b=$2
	shift 2
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_ud_pingpong -d $DEV_A -g $a -p $PORT $*" \
		"ibv_ud_pingpong -d $DEV_B -g $b -p $PORT $* $IP4_A"
}
loopback() {
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_ud_pingpong -d $DEV_A -g $GID4_A -p $PORT $*" \
		"nsenter --net=/run/netns/$NS_A ibv_ud_pingpong -d $DEV_A -g $GID4_A -p $PORT $* $IP4_A"
}

for size in 1 2 3 4 1023 2048 4096; do
	t "UD pingpong of $size bytes" pingpong "$GID4_A" "$GID4_B" -n 50 -e -s $size
done
t "UD pingpong over IPv6" pingpong "$GID6_A" "$GID6_B" -n 100 -e
t "UD pingpong, busy polling" pingpong "$GID4_A" "$GID4_B" -n 200
t "UD pingpong on one device" loopback -n 100 -e
finish
