#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: each service works wherever an address is, with the exceptions that are documented. On the
# device's netdev, on one above it (VLAN, bridge, bond, macvlan ...), in another network namespace;
# and netdevs that are no Ethernet. For each, IPv4 and IPv6, between two hosts and on one device.
# What works is printed as a table, too (Documentation/addresses.rst; make test has four of its
# rows).
# vm: time=1500
. "$(dirname "$0")/lib.sh"
need_module
LIMIT=20
for module in 8021q bridge bonding team vrf macvlan ipvlan tun wireguard; do
	modprobe -q $module
done

# ---------------------------------------------------------------- the network of a row

# lay_VARIANT NAMESPACE NETDEV IPV4 IPV6: puts the addresses where the row has them.
addresses() { # NAMESPACE NETDEV IPV4 IPV6
	ip -n "$1" -b - <<-T
		link set $2 up
		addr add $3/24 dev $2
		addr add $4/64 dev $2 nodad
	T
}
above() { # NAMESPACE NETDEV NAME KIND...: a netdev of this kind above another
	local ns=$1 netdev=$2 name=$3
	shift 3
	ip -n "$ns" link add link "$netdev" name "$name" type "$@"
}
below() { # NAMESPACE NETDEV NAME KIND...: a netdev of this kind, of which the other is a port
	local ns=$1 netdev=$2 name=$3
	shift 3
	ip -n "$ns" link add "$name" type "$@" && ip -n "$ns" link set "$netdev" down &&
		ip -n "$ns" link set "$netdev" master "$name" && ip -n "$ns" link set "$netdev" up &&
		ip -n "$ns" link set "$name" up
}
lay_veth() { addresses "$@"; }
lay_vlan() { above "$1" "$2" v5 vlan id 5 && addresses "$1" v5 "$3" "$4"; }
lay_bridge() { below "$1" "$2" br0 bridge && addresses "$1" br0 "$3" "$4"; }
lay_vlan_bridge() {
	below "$1" "$2" br0 bridge && above "$1" br0 v5 vlan id 5 && addresses "$1" v5 "$3" "$4"
}
lay_bond() { below "$1" "$2" bond0 bond mode active-backup && addresses "$1" bond0 "$3" "$4"; }
# What teamd does: a team's mode is set before it has a port, one of its ports is made the active one,
# and it has the MAC address of one.
lay_team() {
	local mac
	mac=$(ip -n "$1" link show "$2" | awk '/link.ether/ { print $2 }')
	ip -n "$1" link add team0 address "$mac" type team &&
		in_ns "$1" teamnl team0 setoption mode activebackup &&
		ip -n "$1" link set "$2" down && ip -n "$1" link set "$2" master team0 &&
		ip -n "$1" link set "$2" up && ip -n "$1" link set team0 up &&
		in_ns "$1" teamnl team0 setoption activeport \
			"$(ip -n "$1" link show "$2" | sed -n '1s/:.*//p')" &&
		addresses "$1" team0 "$3" "$4"
}
lay_vrf() {
	WITHIN="ip vrf exec red"
	below "$1" "$2" red vrf table 10 && addresses "$1" "$2" "$3" "$4"
}
lay_macvlan() { above "$1" "$2" m0 macvlan mode bridge && addresses "$1" m0 "$3" "$4"; }
lay_ipvlan_l2() { above "$1" "$2" i0 ipvlan mode l2 && addresses "$1" i0 "$3" "$4"; }
pod() { # NAMESPACE NETDEV IPV4 IPV6: the netdev and the addresses are a pod's
	ip netns add "$1-pod" && ip -n "$1-pod" link set lo up &&
		ip -n "$1" link set "$2" netns "$1-pod" && addresses "$1-pod" "$2" "$3" "$4"
}
lay_macvlan_pod() { above "$1" "$2" m0 macvlan mode bridge && pod "$1" m0 "$3" "$4"; }
# In l3 mode the netdev below routes for the pod, and its peers take the way by that one's address.
lay_ipvlan_l3_pod() {
	local own=${3##*.} other=$((3 - ${3##*.}))
	above "$1" "$2" i0 ipvlan mode l3 && addresses "$1" "$2" "10.76.0.$own" "fd76::$own" &&
		ip -n "$1" route add "10.77.0.$other/32" via "10.76.0.$other" &&
		ip -n "$1" route add "fd77::$other/128" via "fd76::$other" && pod "$1" i0 "$3" "$4"
}
lay_ipvlan_pod() { above "$1" "$2" i0 ipvlan mode l2 && pod "$1" i0 "$3" "$4"; }
lay_vlan_pod() { above "$1" "$2" v5 vlan id 5 && pod "$1" v5 "$3" "$4"; }

in_ns() { local ns=$1; shift; nsenter --net="/run/netns/$ns" "$@"; }

# lo_hosts: one host, with a device on lo.
lo_hosts() {
	net_up || return 1
	ip -n $NS_A addr flush dev $VETH_A scope global
	ip -n $NS_A addr add $IP4_A/32 dev lo && ip -n $NS_A addr add $IP6_A/128 dev lo || return 1
	NS_B=$NS_A DEV_B=$DEV_A IP4_B=$IP4_A
	link_add $DEV_A lo $NS_A || return 1
	meet
	# The connection manager refuses these two; nothing else does.
	GID4_A=$(wait_gid $DEV_A 127.0.0.1) && GID6_A=$(wait_gid $DEV_A ::1) || return 1
	GID4_B=$GID4_A GID6_B=$GID6_A
}

# tun_hosts: a tunnel of IP packets between the hosts, which py/tun.py carries.
tun_hosts() {
	net_up || return 1
	ip -n $NS_A addr flush dev $VETH_A scope global
	ip -n $NS_B addr flush dev $VETH_B scope global
	python3 "$PY/tun.py" $NS_A $NS_B tun0 9>&- >"$TMP/tun" 2>&1 & TUNNEL=$!
	poll 10 ip -n $NS_B link show tun0 || { cat "$TMP/tun"; return 1; }
	addresses $NS_A tun0 $IP4_A $IP6_A && addresses $NS_B tun0 $IP4_B $IP6_B || return 1
	link_add $DEV_A tun0 $NS_A && link_add $DEV_B tun0 $NS_B || return 1
	meet
}

# wireguard_hosts: WireGuard over the veth pair.
wireguard_hosts() {
	local ns other key
	net_up || return 1
	ip -n $NS_A addr flush dev $VETH_A scope global
	ip -n $NS_B addr flush dev $VETH_B scope global
	ip -n $NS_A addr add 10.78.0.1/24 dev $VETH_A && ip -n $NS_B addr add 10.78.0.2/24 dev $VETH_B
	for ns in $NS_A $NS_B; do
		(umask 077; wg genkey >"$TMP/key-$ns") && wg pubkey <"$TMP/key-$ns" >"$TMP/pub-$ns" &&
			ip -n $ns link add wg0 type wireguard || return 1
	done
	for ns in "$NS_A $NS_B 10.78.0.2" "$NS_B $NS_A 10.78.0.1"; do
		read -r ns other key <<<"$ns"
		in_ns $ns wg set wg0 listen-port 51820 private-key "$TMP/key-$ns" \
			peer "$(cat "$TMP/pub-$other")" allowed-ips 0.0.0.0/0,::/0 endpoint "$key:51820" ||
			return 1
	done
	addresses $NS_A wg0 $IP4_A $IP6_A && addresses $NS_B wg0 $IP4_B $IP6_B || return 1
	link_add $DEV_A wg0 $NS_A && link_add $DEV_B wg0 $NS_B || return 1
	meet
}

# bonded_hosts: host A's addresses and device are on a bond of two slaves; each has a port of host B's
# bridge at its other end.
bonded_hosts() {
	local slave
	net_up || return 1
	ip -n $NS_A addr flush dev $VETH_A scope global
	ip -n $NS_B addr flush dev $VETH_B scope global
	ip link add oxvc netns $NS_A type veth peer name oxvd netns $NS_B &&
		ip -n $NS_A link add bond0 type bond mode active-backup miimon 50 &&
		ip -n $NS_B link add br0 type bridge || return 1
	for slave in $VETH_A oxvc; do
		ip -n $NS_A link set $slave down && ip -n $NS_A link set $slave master bond0 &&
			ip -n $NS_A link set $slave up || return 1
	done
	for slave in $VETH_B oxvd; do
		ip -n $NS_B link set $slave master br0 && ip -n $NS_B link set $slave up || return 1
	done
	addresses $NS_A bond0 $IP4_A $IP6_A && addresses $NS_B br0 $IP4_B $IP6_B &&
		link_add $DEV_A bond0 $NS_A && link_add $DEV_B br0 $NS_B || return 1
	meet
}
# t_slaves: a connection goes on while the bond's active slave changes.
t_slaves() {
	local pid changes=0 slave
	bonded_hosts || return 1
	LIMIT=120 pingpong rc $GID4_A $GID4_B -e -n 3000 -s 3000 >"$TMP/slaves" 2>&1 & pid=$!
	poll 60 eval "rdma resource show qp | grep -q 'state RTS'" || return 1
	while kill -0 $pid 2>/dev/null; do
		for slave in oxvc $VETH_A; do
			ip -n $NS_A link set bond0 type bond active_slave $slave || return 1
			changes=$((changes + 1))
			sleep 0.2
		done
	done
	wait $pid || { cat "$TMP/slaves"; return 1; }
	echo "the active slave changed $changes times"
	[ $changes -ge 6 ]
}

# hosts VARIANT: two hosts with a device each and the addresses of that variant.
hosts() {
	net_up || return 1
	ip -n $NS_A addr flush dev $VETH_A scope global
	ip -n $NS_B addr flush dev $VETH_B scope global
	"lay_$1" $NS_A $VETH_A $IP4_A $IP6_A && "lay_$1" $NS_B $VETH_B $IP4_B $IP6_B || return 1
	link_add $DEV_A $VETH_A $NS_A && link_add $DEV_B $VETH_B $NS_B || return 1
	meet
}

# meet: the hosts reach each other, and the devices have the GIDs.
meet() {
	if [ -e /run/netns/$NS_A-pod ]; then
		NS_A=$NS_A-pod NS_B=$NS_B-pod
	fi
	nsenter --net=/run/netns/$NS_A sleep 100000 9>&- & HOLD_A=$!
	nsenter --net=/run/netns/$NS_B sleep 100000 9>&- & HOLD_B=$!
	GID4_A=$(wait_gid $DEV_A $IP4_A) && GID4_B=$(wait_gid $DEV_B $IP4_B) &&
		GID6_A=$(wait_gid $DEV_A $IP6_A) && GID6_B=$(wait_gid $DEV_B $IP6_B) || return 1
	# shellcheck disable=SC2086 # no word, or some
	poll 30 in_b $WITHIN ping -c 1 -W 2 $IP4_A && poll 30 in_b $WITHIN ping -c 1 -W 2 $IP6_A
}

hosts_gone() {
	links_down
	[ -z "${TUNNEL:-}" ] || kill_wait $TUNNEL
	TUNNEL=''
	kill_wait "$HOLD_A" "$HOLD_B"
	NS_A=oxt-a NS_B=oxt-b DEV_B=${LINK_TYPE}b IP4_B=10.77.0.2
	for ns in $NS_A-pod $NS_B-pod; do
		[ ! -e /run/netns/$ns ] || ip netns del $ns
	done
	HOLD_A='' HOLD_B='' WITHIN=''
	net_down
}

# ---------------------------------------------------------------- the cells of a row

COLUMNS="RC4 RC6 UC4 UC6 UD4 UD6 CM4 CM6 mcast loop4 loop6"
cell_RC4() { pingpong rc $GID4_A $GID4_B -n 50 -s 3000; }
cell_RC6() { pingpong rc $GID6_A $GID6_B -n 50 -s 3000; }
cell_UC4() { pingpong uc $GID4_A $GID4_B -n 50 -s 3000; }
cell_UC6() { pingpong uc $GID6_A $GID6_B -n 50 -s 3000; }
cell_UD4() { pingpong ud $GID4_A $GID4_B -n 50 -s 900; }
cell_UD6() { pingpong ud $GID6_A $GID6_B -n 50 -s 900; }
# In a VRF the connection manager finds the way by the address that a program binds to (-I).
rping_to() { # ADDRESS OWN-ADDRESS
	local from=${WITHIN:+-I $2}
	PORT=$((PORT + 1))
	pair "cm $PORT" "rping -s -a $1 -p $PORT -V -C 5" "rping -c -a $1 $from -p $PORT -V -C 5"
}
cell_CM4() { rping_to $IP4_A $IP4_B; }
cell_CM6() { rping_to $IP6_A $IP6_B; }
cell_mcast() {
	local pid status=0
	# shellcheck disable=SC2086 # no word, or some
	in_a $WITHIN timeout $((LIMIT * SLOW)) mckey -m 239.7.7.7 -b $IP4_A -C 5 >"$TMP/server" 2>&1 9>&- &
	pid=$!
	poll 10 grep -q joined "$TMP/server"
	# shellcheck disable=SC2086 # no word, or some
	in_b $WITHIN timeout $((LIMIT * SLOW)) mckey -m 239.7.7.7 -b $IP4_B -C 5 -s || status=$?
	wait $pid || status=$?
	cat "$TMP/server"
	return $status
}
cell_loop4() { pingpong rc $GID4_A self -n 50 -s 3000; }
cell_loop6() { pingpong rc $GID6_A self -n 50 -s 3000; }

TABLE=()
# row NAME COMMAND...: CANNOT says why multicast cannot work there.
row() {
	local name=$1 column line before
	shift
	if ! "$@" >"$TMP/log" 2>&1; then
		not_ok "$name: two hosts" "$TMP/log"
		hosts_gone
		return
	fi
	line=$name
	for column in $COLUMNS; do
		before=$FAILED
		if [ $column = mcast ] && [ "${CANNOT:-}" ]; then
			skip "$name: $column" "$CANNOT"
			line+=,cannot
			continue
		fi
		t "$name: $column" cell_$column
		line+=",$([ $FAILED = $before ] && echo ok || echo fails)"
	done
	TABLE+=("$line")
	hosts_gone
}

# In the short form, one of each way by which a packet finds its device.
more() { [ -n "${SHORT:-}" ] || row "$@"; }
more veth hosts veth
more VLAN hosts vlan
row bridge hosts bridge
more "VLAN on a bridge" hosts vlan_bridge
more bond hosts bond
more team hosts team
CANNOT="the IP stack asks for members on the VRF itself" row VRF hosts vrf
more macvlan hosts macvlan
more "ipvlan l2" hosts ipvlan_l2
more "VLAN in a pod" hosts vlan_pod
row "macvlan in a pod" hosts macvlan_pod
more "ipvlan l2 in a pod" hosts ipvlan_pod
CANNOT="ipvlan in l3 mode carries no multicast" more "ipvlan l3 in a pod" hosts ipvlan_l3_pod
CANNOT="lo carries no multicast" row lo lo_hosts
more tun tun_hosts
if [ -n "${SHORT:-}" ]; then
	:
elif type wg >/dev/null; then
	row WireGuard wireguard_hosts
else
	skip WireGuard "the program wg is missing"
fi
if [ -z "${SHORT:-}" ]; then
	t "a bond's active slave changes under traffic" t_slaves
	hosts_gone
fi
printf '%s\n' "where,${COLUMNS// /,}" "${TABLE[@]}" | diag
finish
