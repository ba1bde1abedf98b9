#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: pods use a device's addresses in their namespaces, and get nothing of other pods.
# Addresses in other network namespaces (macvlans in pods), and what must not come through: other
# pods' packets and GIDs, datagrams by another namespace's address, packets forged on another
# network with equal addresses, packets by netdevs that have nothing to do with the device
# (py/pods.py). Pods that come and go under traffic, ROUNDS times; a bridge port that is moved, an
# address that is taken away.
# vm: time=900
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe looks for the route in the netdev's namespace"
modprobe -q -a macvlan 8021q bridge
ROUNDS=${ROUNDS:-$([ -n "${SHORT:-}" ] && echo 8 || echo 20)}

# pod NAME VLAN ADDRESS: a namespace with a macvlan above host A's netdev (or above a VLAN on it). Its
# MAC address is always the same, as host B remembers it.
pod() {
	local lower=$VETH_A
	ip netns add "$1" || return 1
	if [ "$2" != - ]; then
		lower=$VETH_A.$2
		ip -n $NS_A link add link $VETH_A name "$lower" type vlan id "$2" || return 1
		ip -n $NS_A link set "$lower" up
	fi
	ip -n $NS_A link add link "$lower" name m0 netns "$1" address "02:00:00:00:00:${3##*.}" \
		type macvlan mode bridge || return 1
	ip -n "$1" -b - <<-T
		link set lo up
		link set m0 up
		addr add $3/24 dev m0
	T
}

hosts_up 1500
export NS_A NS_B VETH_A ONE=oxt-one TWO=oxt-two TWIN=oxt-twin OTHER=oxt-other
export IP4_ONE=10.77.0.11 IP4_TWO=10.77.0.12
t "two pods, and one with the first one's address on a VLAN" eval \
	'pod $ONE - $IP4_ONE && pod $TWO - $IP4_TWO && pod $TWIN 7 $IP4_ONE'
t "the GIDs of the pods" eval \
	'wait_gid $DEV_A $IP4_ONE && wait_gid $DEV_A $IP4_TWO && poll 60 in_b ping -c 1 $IP4_ONE &&
	poll 60 in_b ping -c 1 $IP4_TWO'
GID4_ONE=$(gid_index $DEV_A $IP4_ONE) GID4_TWO=$(gid_index $DEV_A $IP4_TWO)
export GID4_ONE GID4_TWO
# The neighbours of the attacks: one on the VLAN, one behind a netdev of host A that has no device.
ip -n $NS_B link add link $VETH_B name $VETH_B.7 type vlan id 7
ip -n $NS_B link set $VETH_B.7 up
ip netns add $OTHER
ip -n $NS_A link add oxvo type veth peer name oxvp netns $OTHER
ip -n $NS_A link set oxvo up
ip -n $OTHER link set oxvp up
ip -n $OTHER addr add $IP4_B/24 dev oxvp
export MAC_TWIN MAC_OXVO
MAC_TWIN=$(ip -n $TWIN link show m0 | awk '/link.ether/ { print $2 }')
MAC_OXVO=$(ip -n $NS_A link show oxvo | awk '/link.ether/ { print $2 }')
relay_py pods

# ---------------------------------------------------------------- pods that come and go

# begin_traffic NAMESPACE ADDRESS: a ping-pong without end between there and host B, in the
# background.
begin_traffic() {
	local gid
	gid=$(wait_gid $DEV_A "$2") && poll 60 in_b ping -c 1 -W 2 "$2" || return 1
	PORT=$((PORT + 1))
	# Not through in_a: $! must be the number of the program.
	nsenter --net="/run/netns/$1" ibv_rc_pingpong -e -d $DEV_A -g "$gid" -p $PORT -n 1000000 \
		>/dev/null 2>&1 9>&- &
	SERVER=$!
	poll 60 listening $SERVER $PORT || return 1
	nsenter --net=/run/netns/$NS_B ibv_rc_pingpong -e -d $DEV_B -g $GID4_B -p $PORT -n 1000000 \
		"$2" >/dev/null 2>&1 9>&- &
	CLIENT=$!
	poll 60 busy $CLIENT
}
# busy PID: its queue pair is connected.
busy() { rdma resource show qp pid "$1" 2>/dev/null | grep -q "state RTS"; }
t_come_and_go() {
	local round
	for round in $(seq "$ROUNDS"); do
		begin_traffic $ONE $IP4_ONE || return 1
		# Every second time the namespace's name goes first, and its processes hold it.
		[ $((round % 2)) = 0 ] || kill_wait $SERVER
		ip netns del $ONE || return 1
		kill_wait $SERVER $CLIENT
		pod $ONE - $IP4_ONE || return 1
	done
}
t "pods that come and go, $ROUNDS times" t_come_and_go
t_traffic() {
	local round
	for round in $(seq "$ROUNDS"); do
		begin_traffic $ONE $IP4_ONE || return 1
		# The interface goes while packets fly, or moves back to host A.
		if [ $((round % 2)) = 0 ]; then
			ip -n $ONE link del m0 || return 1
		else
			ip -n $ONE link set m0 netns $NS_A && ip -n $NS_A link del m0 || return 1
		fi
		kill_wait $SERVER $CLIENT
		ip netns del $ONE && pod $ONE - $IP4_ONE || return 1
	done
}
t "a pod's interface goes under traffic, $ROUNDS times" t_traffic
t_gone() {
	ip netns del $ONE && ip netns del $TWO && ip netns del $TWIN && ip netns del $OTHER || return 1
	poll 60 no_pods
}
no_pods() { ! gid_index $DEV_A $IP4_ONE && ! gid_index $DEV_A $IP4_TWO; }
t "the pods' GIDs go with them" t_gone

# ---------------------------------------------------------------- under traffic, in one namespace

# kept COMMAND...: a connection between the hosts works before and after, and while the command runs
# nothing worse happens than that it ends.
kept() {
	begin_traffic $NS_A $IP4_A || return 1
	"$@" || return 1
	kill_wait $SERVER $CLIENT
	GID4_A=$(wait_gid $DEV_A $IP4_A) && acquainted && pingpong rc $GID4_A $GID4_B -n 20
}
into_bridge() {
	ip -n $NS_A link add br0 type bridge && ip -n $NS_A link set br0 up &&
		ip -n $NS_A link set $VETH_A master br0 && ip -n $NS_A addr del $IP4_A/24 dev $VETH_A &&
		ip -n $NS_A addr add $IP4_A/24 dev br0
}
out_of_bridge() {
	ip -n $NS_A link set $VETH_A nomaster && ip -n $NS_A link del br0 &&
		ip -n $NS_A addr add $IP4_A/24 dev $VETH_A
}
acquainted_by_bridge() {
	local mac
	mac=$(ip -n $NS_A link show br0 | awk '/link.ether/ { print $2 }')
	ip -n $NS_B neigh replace $IP4_A lladdr "$mac" dev $VETH_B nud permanent
}
t_into() {
	acquainted() { acquainted_by_bridge; }
	kept into_bridge
}
t "the netdev becomes a port of a bridge, which gets the address" t_into
t_out() {
	acquainted() {
		ip -n $NS_B neigh replace $IP4_A dev $VETH_B nud permanent \
			lladdr "$(ip -n $NS_A link show $VETH_A | awk '/link.ether/ { print $2 }')"
	}
	kept out_of_bridge
}
t "and leaves it" t_out
finish
