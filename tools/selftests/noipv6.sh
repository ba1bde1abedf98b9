#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 append=ipv6.disable=1
#
# device: devices work with IPv4 alone on a kernel whose IPv6 is switched off. ipv6.disable=1;
# devices on both ends of a wire.
# shellcheck disable=SC2034 # lib.sh uses what is set here
. "$(dirname "$0")/lib.sh"
t "IPv6 is off" [ ! -e /proc/sys/net/ipv6 ]

wire() {
	ip netns add $NS_A && ip netns add $NS_B &&
		ip link add $VETH_A netns $NS_A type veth peer name $VETH_B netns $NS_B &&
		ip -n $NS_A addr add $IP4_A/24 dev $VETH_A && ip -n $NS_B addr add $IP4_B/24 dev $VETH_B &&
		ip -n $NS_A link set $VETH_A up && ip -n $NS_B link set $VETH_B up &&
		ip -n $NS_A link set lo up && ip -n $NS_B link set lo up || return 1
	# pair looks there for listeners.
	nsenter --net=/run/netns/$NS_A sleep 100000 9>&- & HOLD_A=$!
	nsenter --net=/run/netns/$NS_B sleep 100000 9>&- & HOLD_B=$!
}
t "two hosts with IPv4" wire
devices() {
	need_module && link_add $DEV_A $VETH_A $NS_A && link_add $DEV_B $VETH_B $NS_B &&
		GID4_A=$(wait_gid $DEV_A $IP4_A) && GID4_B=$(wait_gid $DEV_B $IP4_B) &&
		BASELINE=$(resources)
}
t "a device on each" devices
pingpong() { # PROGRAM OPTION...
	PORT=$((PORT + 1))
	pair "tcp $PORT" "$1 -d $DEV_A -g $GID4_A -p $PORT ${*:2}" \
		"$1 -d $DEV_B -g $GID4_B -p $PORT ${*:2} $IP4_A"
}
t "RC" pingpong ibv_rc_pingpong -c -n 100
t "UC" pingpong ibv_uc_pingpong -n 20
t "UD" pingpong ibv_ud_pingpong -n 20
rping_case() {
	PORT=$((PORT + 1))
	pair "cm $PORT" "rping -s -a $IP4_A -p $PORT -C 10 -V" "rping -c -a $IP4_A -p $PORT -C 10 -V"
}
t "rping" rping_case
finish
