#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: programs get errors when their device is removed, and the kernel stays clean. The link
# deleted, the netdev removed, the namespace gone, the module unloaded, in mid-transfer, with
# programs that sleep on events and programs that poll, also if all that they do is poll. ROUNDS=N
# makes so many rounds of lib/rounds.sh; removed.sh measures them.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/rounds.sh"
hosts_up 4200

A='' B=''
# traffic TOOL OPTION...: a pair that would run for ever.
traffic() {
	local tool=$1
	shift
	PORT=$((PORT + 1))
	nsenter --net=/run/netns/$NS_A $tool -F -p $PORT -d $DEV_A -x $GID4_A -n 1000000 "$@" \
		>"$TMP/server" 2>&1 9>&- &
	A=$!
	poll 60 listening "$HOLD_A" $PORT || return 1
	nsenter --net=/run/netns/$NS_B $tool -F -p $PORT -d $DEV_B -x $GID4_B -n 1000000 "$@" $IP4_A \
		>"$TMP/client" 2>&1 9>&- &
	B=$!
	poll 60 busy || { cat "$TMP/client" "$TMP/server"; rdma resource show qp; ends; return 1; }
}
# Both ends have their queue pair, the sender's in RTS (a perftest server that only receives stays
# in RTR).
busy() {
	rdma resource show qp >"$TMP/qp"
	[ "$(grep -cE 'type RC state RT[RS]' "$TMP/qp")" -ge 2 ] && grep -q 'type RC state RTS' "$TMP/qp"
}
ends() { kill_wait $A $B; }
no_program() { ! kill -0 $A 2>/dev/null && ! kill -0 $B 2>/dev/null; }

# again: the removed objects are made anew.
again() {
	links_down; net_down
	net_up 4200 && links_up && perf ib_send_bw 1 -e -s 65536 -n 10
}

# Both programs end by themselves: they see errors, or that the other has closed its socket.
t_del() { # DEVICE TOOL OPTION...
	local dev=$1 status=0
	shift
	traffic "$@" || return 1
	sleep 0.7
	timeout 120 rdma link del "$dev" && poll 60 gone "$dev" && poll 60 no_program || status=1
	ends
	again && return $status
}
t "link deleted under ib_send_bw that polls" t_del $DEV_A ib_send_bw -s 262144
t "link deleted under ib_send_bw that sleeps on events" t_del $DEV_A ib_send_bw -s 262144 -e
t "link deleted under ib_write_bw's client that polls" t_del $DEV_B ib_write_bw -s 1048576
t "link deleted under ib_read_bw" t_del $DEV_A ib_read_bw -s 1048576 -e
t_both() {
	traffic ib_write_bw -s 65536 -q 4 || return 1
	timeout 120 rdma link del $DEV_B && timeout 120 rdma link del $DEV_A && ends && again
}
t "both links deleted under 4 QPs" t_both

t_netdev() {
	traffic ib_send_bw -s 262144 -e || return 1
	sleep 0.5
	timeout 120 ip -n $NS_A link del $VETH_A && poll 60 gone $DEV_A && poll 60 gone $DEV_B &&
		ends && again
}
t "netdev removed in mid-transfer" t_netdev
# What was sent waits in the netdev's queue, and outlives device, socket and netdev there.
t_queued() { # COMMAND...: the end
	local status=0
	in_a tc qdisc add dev $VETH_A root netem delay 700ms limit 10000 || return 1
	traffic ib_write_bw -s 65536 || return 1
	poll 60 eval "in_a tc -s qdisc show dev $VETH_A | grep -qE 'backlog [1-9]'" || status=1
	timeout 120 "$@" && poll 60 gone $DEV_A || status=1
	ends
	again && return $status
}
t "netdev removed with packets in its queue" t_queued ip -n $NS_A link del $VETH_A
t "link deleted with packets in its netdev's queue" t_queued rdma link del $DEV_A
t_ns() {
	# The namespace lives as long as a process in it does: the programs die with it, as a
	# container's do.
	traffic ib_write_bw -s 262144 || return 1
	sleep 0.5
	ends
	net_down
	poll 60 gone $DEV_A && poll 60 gone $DEV_B && again
}
t "namespaces removed after their programs" t_ns
t_flap() {
	local i
	traffic ib_write_bw -s 65536 || return 1
	for i in 1 2 3 4 5; do
		ip -n $NS_A link set $VETH_A down; sleep 0.1; ip -n $NS_A link set $VETH_A up; sleep 0.1
	done
	ends
	again
}
t "netdev down and up in mid-transfer" t_flap

t_cm_listener() {
	local pid
	PORT=$((PORT + 1))
	nsenter --net=/run/netns/$NS_A rping -s -P -a $IP4_A -p $PORT >/dev/null 2>&1 9>&- &
	pid=$!
	poll 60 cm_listening $PORT && timeout 120 rdma link del $DEV_A && poll 60 gone $DEV_A
	local status=$?
	kill_wait $pid
	again && return $status
}
t "link deleted under a listener of the connection manager" t_cm_listener

# An open program holds the module: unloading is refused, or ends the devices properly without
# waiting for programs.
t_rmmod_users() {
	local status=0
	traffic ib_send_bw -s 65536 -e || return 1
	if module_unload; then
		# Allowed only if that took the devices along properly.
		gone $DEV_A && gone $DEV_B || status=1
	else
		busy || { echo "refused, but the traffic has stopped"; status=1; }
	fi
	ends
	need_module && again && return $status
}
t "rmmod in mid-transfer is refused, or ends the devices" t_rmmod_users
t_rmmod_free() {
	poll 60 resources_back && module_unload && gone $DEV_A && gone $DEV_B && module_load && again
}
t "rmmod with devices nobody uses" t_rmmod_free

MOMENTS=$([ -z "${SHORT:-}" ] && echo 1 2 3 4 5 6 || echo 1 4)
t_many() {
	local i
	for i in $MOMENTS; do
		traffic ib_write_bw -s 16384 -q 2 || return 1
		sleep 0.$((i * 13 % 10))
		rdma link del $DEV_A && rdma link del $DEV_B || return 1
		ends
		links_up || return 1
	done
}
t "links deleted under traffic, at the moments $MOMENTS" t_many

[ -z "${SHORT:-}" ] || ROUNDS=${ROUNDS:-4}
ROUNDS=${ROUNDS:-8}
t "links, netdevs, namespaces, the module removed under all services, $ROUNDS times" \
	rounds "$ROUNDS"
rounds_took
relay_py removed
finish
