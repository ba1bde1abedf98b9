#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: no route outlives its network namespace while the end of a device is held up. The
# namespace ends, or its netdev moves to another, while a process is in the middle of a registration
# (its memory waits for a userfaultfd). By then the device may hold nothing that belongs to the
# namespace: above all no routes, which would point into freed memory. Kprobes count them, and KASAN
# finds one that is used too late (py/netns.py).
# vm: nics=2
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "about routes that oxe keeps"

# ns_up: A and B as in net_up, but A's netdev is the NIC eth0, and B's eth1, on one wire.
ns_up() {
	net_up && ip -n $NS_A link del $VETH_A &&
		ip link set eth0 netns $NS_A && ip link set eth1 netns $NS_B || return 1
	# shellcheck disable=SC2034 # for links_up
	VETH_A=eth0 VETH_B=eth1
	in_a ip -b - <<-T && in_b ip -b - <<-T2
		link set eth0 up
		addr add $IP4_A/24 dev eth0
		addr add $IP6_A/64 dev eth0 nodad
	T
		link set eth1 up
		addr add $IP4_B/24 dev eth1
		addr add $IP6_B/64 dev eth1 nodad
	T2
	# ib_core gives the kernel a second to resolve a neighbour, which a busy machine may need.
	poll 60 in_a ping -c 1 -W 2 $IP6_B && poll 60 in_b ping -c 1 -W 2 $IP6_A
}

# watch_routes: counts routes that the driver finds and gives up from now on; held is how many it
# has.
TRACING=/sys/kernel/tracing
watch_routes() {
	[ -e $TRACING/kprobe_events ] || mount -t tracefs tracing $TRACING 2>/dev/null
	[ -e $TRACING/kprobe_events ] || { echo "the kernel has no kprobes"; return 4; }
	{
		echo 'r:found oxe:oxe_route_lookup to=$retval' && echo 'p:put oxe:oxe_route_put'
	} >$TRACING/kprobe_events &&
		echo 'to < 0xfffffffffffff000' >$TRACING/events/kprobes/found/filter &&
		echo 1 >$TRACING/events/kprobes/enable
}
watched() { [ -e $TRACING/events/kprobes/found ]; }
held() { echo $(($(grep -c ' found: ' $TRACING/trace) - $(grep -c ' put: ' $TRACING/trace))); }
none_held() { ! watched || [ "$(held)" = 0 ]; }

gone() { [ ! -d /sys/class/infiniband/$DEV_A ]; }

# begin: py/netns.py has sent, and its registration waits.
begin() {
	mkfifo "$TMP/go"
	python3 -u "$PY/netns.py" <"$TMP/go" >"$TMP/netns" 2>&1 9>&- &
	PID=$!
	exec 8>"$TMP/go"
	rm "$TMP/go"
	poll 60 grep -q waiting "$TMP/netns" || { cat "$TMP/netns"; return 1; }
}
# end: its registration goes on, and it ends.
end() {
	local status=0
	exec 8>&-
	wait $PID || status=$?
	cat "$TMP/netns"
	[ $status = 0 ] && poll 60 gone
}

t_moved() {
	local status=0
	begin || return 1
	! watched || [ "$(held)" -ge 3 ] || { echo "routes while the device lives: $(held)"; status=1; }
	ip netns add oxt-c && ip -n $NS_A link set $VETH_A netns oxt-c || status=1
	none_held || { echo "routes that are left: $(held)"; status=1; }
	gone && { echo "the device's end was not held up"; status=1; }
	end || status=1
	none_held || { echo "routes at the end: $(held)"; status=1; }
	ip netns del oxt-c
	return $status
}
hosts_up
t "routes are counted" watch_routes
t "no route is left when the netdev has moved to another namespace" t_moved
t "that device's hosts go away" hosts_down

# The NIC moves to the initial namespace when its own ends. ib_core lets that go on when the device
# has ended; after that its memory is freed.
t_ended() {
	local status=0
	begin || return 1
	kill_wait "$HOLD_A"
	ip netns del $NS_A
	poll 60 test -d /sys/class/net/eth0 || status=1
	none_held || { echo "routes that are left: $(held)"; status=1; }
	gone && { echo "the device's end was not held up"; status=1; }
	end || status=1
	ip link set eth0 down
	return $status
}
t "two hosts on two NICs" ns_up
t "with a device each" links_up
t "the namespace of a NIC ends before its device" t_ended
finish
