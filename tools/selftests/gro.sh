#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: super-packets arrive whole and in order where NICs or a switch merge packets (GRO). A wire
# on which packets travel one by one, with every ICRC right. Then a switch in between that has a
# device of its own, and so merges packets that it only forwards: they must leave it as they
# arrived.
. "$(dirname "$0")/lib.sh"
NS_S=oxt-s
VERIFIED="-c -n 100 -s 65000 -m 1024"

# by_packets NAMESPACE NETDEV on|off: it sends packet by packet, and merges received packets (GRO)
# or not.
by_packets() {
	nsenter --net=/run/netns/$1 ethtool -K "$2" tso off tx-udp-segmentation off gro "$3" >/dev/null
}

# capture NAMESPACE NETDEV NAME: begins to write headers of RoCE packets into a file of that name.
DUMPS=()
capture() {
	nsenter --net=/run/netns/$1 tcpdump -q -B 16384 -s 64 -i "$2" -w "$TMP/$3" -Q in \
		udp port 4791 >"$TMP/$3.log" 2>&1 9>&- &
	DUMPS+=($!)
	poll 60 grep -q 'listening on' "$TMP/$3.log"
}
captured() {
	kill -INT "${DUMPS[@]}" && wait "${DUMPS[@]}"
	DUMPS=()
}
# longest NAME: the length of the longest frame in that file.
longest() {
	tcpdump -nn -e -r "$TMP/$1" 2>/dev/null | sed -n 's/.*), length \([0-9]*\):.*/\1/p' |
		sort -n | tail -n 1
}

# none_of COUNTER...: these have not moved.
none_of() {
	local dev name count bad=0
	for dev in $DEV_A $DEV_B; do
		for name in "$@"; do
			count=$(cat "/sys/class/infiniband/$dev/ports/1/hw_counters/$name")
			[ "$count" = 0 ] || { echo "$dev: $name: $count"; bad=1; }
		done
	done
	return $bad
}
# No more is under way at a time than these cards have room for, nor than there are receives: 256
# and 512. -u 18: otherwise a slow machine would send packets again, beyond that.
traffic() { # GID-A GID-B VIA COUNTER...
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $1 -p $PORT $VERIFIED" \
		"ibv_rc_pingpong -d $DEV_B -g $2 -p $PORT $VERIFIED $IP4_A" &&
		VIA=$3 perf ib_send_bw 1 -s 64 -n 400 -u 18 && VIA=$3 perf ib_send_bw 1 -s 64 -n 400 -u 18 -Q 1 &&
		VIA=$3 perf ib_read_bw 1 -s 100000 -n 50 -u 18 -t 1 && none_of "${@:4}"
}
both_versions() { # NAME COUNTER...
	t "IPv4, $1" traffic "$GID4_A" "$GID4_B" 4 "${@:2}"
	t "IPv6, $1" traffic "$GID6_A" "$GID6_B" 6 "${@:2}"
}

hosts_up 1500
by_packets $NS_A $VETH_A on && by_packets $NS_B $VETH_B on
t "the receiver's packets are captured" capture $NS_A $VETH_A direct
both_versions "put together by the receiver: data compared, in order" \
	rcvd_bad_icrc out_of_seq_request response_gap
relay_py ops "trains of requests" "trains of requests over IPv6"
relay_py datagrams "trains of datagrams" "trains of datagrams over IPv6"
super_packets_came() {
	captured
	echo "longest frame: $(longest direct)"
	[ "$(longest direct)" -gt 30000 ]
}
t "super-packets arrived whole" super_packets_came
t "nothing is left of that wire" hosts_down

# A - switch - B. The switch has a device of its own, and with it a socket that takes packets to any
# address. The hosts, which do not merge packets, see that the identifications are unchanged.
switch_up() {
	local port
	net_up 1500 && ip netns add $NS_S || return 1
	ip -n $NS_S link add br0 type bridge && ip -n $NS_S link set br0 up &&
		ip -n $NS_S addr add 10.77.0.3/24 dev br0 || return 1
	ip -n $NS_A link del $VETH_A || return 1
	for port in "a $NS_A $VETH_A $IP4_A $IP6_A" "b $NS_B $VETH_B $IP4_B $IP6_B"; do
		# shellcheck disable=SC2086 # split on purpose
		set -- $port
		ip link add port-$1 netns $NS_S type veth peer name $3 netns $2 &&
			ip -n $NS_S link set port-$1 master br0 up && by_packets $NS_S port-$1 on &&
			by_packets $2 $3 off && ip -n $2 link set $3 up &&
			ip -n $2 addr add $4/24 dev $3 && ip -n $2 addr add $5/64 dev $3 nodad || return 1
	done
	acquainted && links_up && link_add ${LINK_TYPE}s br0 $NS_S
}
switch_down() { link_del ${LINK_TYPE}s && nothing_left && hosts_down && ip netns del $NS_S; }
t "a switch between the hosts, with a device of its own" switch_up
t "the switch's packets are captured" capture $NS_S port-b passing
both_versions "put together and cut again on the way: data compared, ICRCs right" rcvd_bad_icrc
rows_passed() {
	captured
	echo "longest frame: $(longest passing)"
	[ "$(longest passing)" -gt 30000 ]
}
t "the switch put them together" rows_passed
t "the switch goes away" switch_down
finish
