#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: a connection survives changes below it, with each byte compared. Offloads of the netdevs,
# neighbours' entries, interfaces that were just made, a firewall that translates addresses. Changes
# that leave the port as it is raise no event of the port, and packets whose addresses were
# translated are counted (py/path.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_A NS_B VETH_A VETH_B

relay_py path

# fresh N: macvlans on both hosts, with addresses that no neighbour knows yet, and the pingpong
# that follows at once.
fresh() {
	local i=$1 a b status=0
	ip -n $NS_A link add link $VETH_A name mv-a address "02:00:00:00:aa:0$i" type macvlan &&
		ip -n $NS_B link add link $VETH_B name mv-b address "02:00:00:00:bb:0$i" type macvlan &&
		ip -n $NS_A addr add "10.82.$i.1/24" dev mv-a && ip -n $NS_B addr add "10.82.$i.2/24" dev mv-b &&
		ip -n $NS_A link set mv-a up && ip -n $NS_B link set mv-b up &&
		a=$(wait_gid $DEV_A "10.82.$i.1") && b=$(wait_gid $DEV_B "10.82.$i.2") &&
		pingpong rc "$a" "$b" -c -n 50 -s 65536 -e || status=1
	ip -n $NS_A link del mv-a; ip -n $NS_B link del mv-b
	return $status
}
t_fresh() {
	local i
	for i in 1 2 3 4 5 6; do fresh $i || return 1; done
}
t "macvlans that were just made, six times" t_fresh
finish
