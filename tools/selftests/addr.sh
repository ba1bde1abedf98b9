#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: traffic runs by each address of a netdev, over paths of each MTU. IPv4, IPv6 global and
# link-local, a VLAN, a routed path, several addresses of a netdev; path MTUs that follow from the
# netdev's.
. "$(dirname "$0")/lib.sh"
hosts_up 1500

# pingpong ADDRESS-A ADDRESS-B OPTION...: RC between the GIDs of these addresses.
pingpong() {
	local a b
	a=$(wait_gid $DEV_A "$1") && b=$(wait_gid $DEV_B "$2") || return 1
	shift 2
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $a -p $PORT -c -e $*" \
		"ibv_rc_pingpong -d $DEV_B -g $b -p $PORT -c -e $* $IP4_A"
}
# rping_between ADDRESS [ENTER]: host A listens, and host B, or the one that the command ENTER goes
# to, connects by the connection manager.
rping_between() {
	PORT=$((PORT + 1))
	pair "cm $PORT" "rping -s -a $1 -p $PORT -C 10 -V" \
		"${2:-} rping -c -a $1 -p $PORT -C 10 -V"
}
mtu_is() { ibv_devinfo -d "$1" | grep -qE "active_mtu:[[:space:]]+$2 "; }

t "IPv4" pingpong $IP4_A $IP4_B -n 30
t "IPv6" pingpong $IP6_A $IP6_B -n 30
link_local() { ip -n "$1" -6 addr show dev "$2" scope link | sed -n 's/.*inet6 \([^/]*\).*/\1/p'; }
t_local() { pingpong "$(link_local $NS_A $VETH_A)" "$(link_local $NS_B $VETH_B)" -n 30; }
t "IPv6 link-local" t_local
# The GID of index 0 is the link-local one: programs that choose no index reach each other, and are
# refused where the peer's address is IPv4.
t_index_0() {
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g 0 -p $PORT -c -e -n 30" \
		"ibv_rc_pingpong -d $DEV_B -g 0 -p $PORT -c -e -n 30 $IP4_A"
}
t "GID index 0 at both ends" t_index_0
t_index_0_to_ipv4() {
	PORT=$((PORT + 1))
	fails 'Failed to modify QP to RTR' \
		pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $GID4_A -p $PORT -n 3" \
		"ibv_rc_pingpong -d $DEV_B -g 0 -p $PORT -n 3 $IP4_A"
}
t "GID index 0 to an IPv4 peer is refused" t_index_0_to_ipv4

t_more() {
	ip -n $NS_A addr add 10.78.0.1/24 dev $VETH_A && ip -n $NS_B addr add 10.78.0.2/24 dev $VETH_B &&
		pingpong 10.78.0.1 10.78.0.2 -n 30 && pingpong $IP4_A $IP4_B -n 30
}
t "a second IPv4 subnet" t_more
t_gone() {
	ip -n $NS_A addr del 10.78.0.1/24 dev $VETH_A &&
		poll 60 eval '! gid_index $DEV_A 10.78.0.1' && pingpong $IP4_A $IP4_B -n 10
}
t "an address removed" t_gone

for pair in 9000:4096 2200:2048 1500:1024 1280:1024 700:512 400:256; do
	t_mtu() {
		ip -n $NS_A link set $VETH_A mtu "$1" && ip -n $NS_B link set $VETH_B mtu "$1" &&
			poll 60 mtu_is $DEV_A "$2" && poll 60 mtu_is $DEV_B "$2" &&
			pingpong $IP4_A $IP4_B -n 10 -m "$2" -s 10000
	}
	t "netdev MTU ${pair%:*}: path MTU ${pair#*:}" t_mtu "${pair%:*}" "${pair#*:}"
done
# met NAMESPACE ADDRESS: the neighbour with the address is known. The RDMA core gives a second to
# find it, which one lost solicitation uses up; and that is lost if the neighbour does not listen
# yet to the group of a new address.
met() {
	ip netns exec "$1" bash -c "echo >/dev/udp/$2/9"
	ip -n "$1" -6 neigh show "$2" | grep -qE 'REACHABLE|STALE|DELAY|PROBE|PERMANENT'
}
t_back() {
	ip -n $NS_A link set $VETH_A mtu 1500 && ip -n $NS_B link set $VETH_B mtu 1500 &&
		ip -n $NS_A addr replace $IP6_A/64 dev $VETH_A nodad &&
		ip -n $NS_B addr replace $IP6_B/64 dev $VETH_B nodad &&
		poll 60 met $NS_A $IP6_B && poll 60 met $NS_B $IP6_A && pingpong $IP6_A $IP6_B -n 10
}
t "IPv6 again after the netdev's MTU was too small for it" t_back

# answer: datagrams.py sends a datagram from host A, and one back by an AH made of its completion.
answer() { # GID-A GID-B
	GID4_A=$1 GID4_B=$2 timeout $((60 * SLOW)) \
		python3 "$PY/datagrams.py" "answer by an AH made of a completion" >"$TMP/answer" || return 1
	cat "$TMP/answer"
	grep -q '^ok ' "$TMP/answer"
}
# A completion has the packet type in sl, and so has the AH made of it. On VLANs that map every
# priority but 0 to a PCP, and the low bits of packet types to different ones, no datagram may have
# one.
t_no_priority() {
	local a b dump status=0 map='1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:1 9:3 10:5'
	modprobe -q 8021q
	# shellcheck disable=SC2086 # the map is split on purpose
	ip -n $NS_A link add link $VETH_A name vl-a type vlan id 78 egress-qos-map $map &&
		ip -n $NS_B link add link $VETH_B name vl-b type vlan id 78 egress-qos-map $map &&
		ip -n $NS_A addr add 10.81.0.1/24 dev vl-a && ip -n $NS_B addr add 10.81.0.2/24 dev vl-b &&
		ip -n $NS_A link set vl-a up && ip -n $NS_B link set vl-b up &&
		a=$(wait_gid $DEV_A 10.81.0.1) && b=$(wait_gid $DEV_B 10.81.0.2) || return 1
	nsenter --net=/run/netns/$NS_A tcpdump -nn -e -l -c 2 -i $VETH_A vlan 78 and udp port 4791 \
		>"$TMP/tags" 2>"$TMP/tcpdump" 9>&- &
	dump=$!
	poll 60 grep -q 'listening on' "$TMP/tcpdump" && answer "$a" "$b" &&
		poll 60 eval '[ "$(grep -c "vlan 78, p 0," "$TMP/tags")" = 2 ]' || status=1
	kill_wait $dump
	cat "$TMP/tags"
	ip -n $NS_A link del vl-a; ip -n $NS_B link del vl-b
	return $status
}
t "an AH made of a completion gives no priority" t_no_priority

# The address of a VLAN on top is a GID of the device below: its packets carry the tag. The connection
# manager finds the GID of its reply by the VLAN that a request came by, within one device, too.
t_vlan() {
	modprobe -q 8021q
	ip -n $NS_A link add link $VETH_A name vl-a type vlan id 77 &&
		ip -n $NS_B link add link $VETH_B name vl-b type vlan id 77 &&
		ip -n $NS_A addr add 10.79.0.1/24 dev vl-a && ip -n $NS_B addr add 10.79.0.2/24 dev vl-b &&
		ip -n $NS_A link set vl-a up && ip -n $NS_B link set vl-b up || return 1
	poll 60 in_a ping -c 1 -W 2 10.79.0.2 || { echo "the VLAN itself does not work"; return 1; }
	pingpong 10.79.0.1 10.79.0.2 -n 20 && rping_between 10.79.0.1 &&
		rping_between 10.79.0.1 "nsenter --net=/run/netns/$NS_A"
	local status=$?
	ip -n $NS_A link del vl-a; ip -n $NS_B link del vl-b
	return $status
}
t "GIDs of a VLAN on top of the netdev" t_vlan

# Another namespace routes between two subnets.
t_routed() {
	local status
	ip netns add oxt-r && ip -n oxt-r link set lo up &&
		ip link add r0 netns oxt-r type veth peer name oxra netns $NS_A &&
		ip link add r1 netns oxt-r type veth peer name oxrb netns $NS_B &&
		ip netns exec oxt-r sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' &&
		ip -n oxt-r addr add 10.80.1.254/24 dev r0 && ip -n oxt-r addr add 10.80.2.254/24 dev r1 &&
		ip -n oxt-r link set r0 up && ip -n oxt-r link set r1 up &&
		ip -n $NS_A addr add 10.80.1.1/24 dev oxra && ip -n $NS_A link set oxra up &&
		ip -n $NS_B addr add 10.80.2.1/24 dev oxrb && ip -n $NS_B link set oxrb up &&
		ip -n $NS_A route add 10.80.2.0/24 via 10.80.1.254 &&
		ip -n $NS_B route add 10.80.1.0/24 via 10.80.2.254 &&
		link_add ${LINK_TYPE}ra oxra $NS_A && link_add ${LINK_TYPE}rb oxrb $NS_B || return 1
	rping_between 10.80.1.1
	status=$?
	link_del ${LINK_TYPE}ra; link_del ${LINK_TYPE}rb
	ip netns del oxt-r
	return $status
}
t "through a router" t_routed
finish
