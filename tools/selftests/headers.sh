#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: IP headers and priorities are those that the address vector asks for. Seen on the wire
# (py/headers.py): traffic class, hop limit, service level.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "oxe's rules"
hosts_up 1500

vlan_up() { # NAMESPACE NETDEV ADDRESS
	ip -n $1 link add link $2 name vl0 type vlan id 7 egress-qos-map 2:6 3:5 &&
		ip -n $1 link set vl0 up && ip -n $1 addr add $3/24 dev vl0
}
vlans_up() {
	modprobe -q 8021q
	vlan_up $NS_A $VETH_A 10.78.0.1 && vlan_up $NS_B $VETH_B 10.78.0.2 &&
		GIDV_A=$(wait_gid $DEV_A 10.78.0.1) && GIDV_B=$(wait_gid $DEV_B 10.78.0.2)
}
t "a VLAN between the hosts" vlans_up
export GIDV_A GIDV_B NS_A NS_B VETH_A VETH_B
relay_py headers

# A device that maps priorities to traffic classes has no place for them on the wire: the priorities
# of packets are counted where they leave.
map_up() {
	modprobe -q sch_mqprio && modprobe -q nf_tables || { echo "the kernel has no mqprio"; return 4; }
	links_down
	ip -n $NS_A link del $VETH_A || return 1
	ip link add $VETH_A numtxqueues 4 netns $NS_A type veth peer name $VETH_B netns $NS_B &&
		ip -n $NS_A link set $VETH_A up && ip -n $NS_B link set $VETH_B up &&
		ip -n $NS_A addr add $IP4_A/24 dev $VETH_A && ip -n $NS_B addr add $IP4_B/24 dev $VETH_B &&
		ip -n $NS_A addr add $IP6_A/64 dev $VETH_A nodad &&
		ip -n $NS_B addr add $IP6_B/64 dev $VETH_B nodad && links_up || return 1
	nsenter --net=/run/netns/$NS_A tc qdisc add dev $VETH_A root handle 1: \
		mqprio num_tc 4 map 0 0 1 2 3 queues 1@0 1@1 1@2 1@3 hw 0 || return 1
	in_a nft -f - <<-T
		table inet oxe {
			counter p0 { }
			counter p3 { }
			counter p4 { }
			chain out {
				type filter hook output priority 0;
				udp dport 4791 meta priority 0:0 counter name p0
				udp dport 4791 meta priority 0:3 counter name p3
				udp dport 4791 meta priority 0:4 counter name p4
			}
		}
	T
}
priorities() {
	local name
	for name in p0 p3 p4; do
		in_a nft list counter inet oxe $name | sed -n 's/.*packets \([0-9]*\) .*/\1/p'
	done | xargs
}
# mapped SERVICE-LEVELS WANT: so many datagrams of priority 0, 3 and 4.
mapped() {
	in_a nft reset counters >/dev/null
	python3 "$PY/headers.py" send $1 || return 1
	echo "datagrams with priorities 0, 3 and 4: $(priorities)"
	[ "$(priorities)" = "$2" ]
}
t "a device with a map from priorities to traffic classes" map_up
if in_a nft list counters >/dev/null 2>&1; then
	t "a service level of such a device is a traffic class" mapped "0 2 3 7 10" "3 1 1"
fi
finish
