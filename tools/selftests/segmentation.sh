#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: with the module parameter segmentation=0 no super-packet is sent, and all data arrive. To a
# device that would take them. Packets longer than a page, alone, do not take the memory of
# super-packets.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "a parameter of oxe's"

# longest_of COMMAND...: the length of the longest RoCE frame that host A sent or received meanwhile
# goes to $TMP/longest.
longest_of() {
	local pid status=0
	nsenter --net=/run/netns/$NS_A tcpdump -q -U --immediate-mode -B 16384 -s 64 -i $VETH_A \
		-w "$TMP/pcap" udp port 4791 >"$TMP/dump" 2>&1 9>&- &
	pid=$!
	poll 60 grep -q 'listening on' "$TMP/dump" || return 1
	"$@" || status=$?
	# When this packet, which takes the same way, is captured, all before it are.
	in_a bash -c "echo the-end >/dev/udp/$IP4_B/4791"
	poll 60 grep -q the-end "$TMP/pcap" || status=1
	kill -INT $pid
	wait $pid
	tcpdump -nn -e -r "$TMP/pcap" 2>/dev/null | sed -n 's/.*), length \([0-9]*\):.*/\1/p' |
		sort -n | tail -n 1 >"$TMP/longest"
	echo "longest frame: $(cat "$TMP/longest")"
	return $status
}
traffic() { # GID-A GID-B
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -e -d $DEV_A -g $1 -p $PORT -c -n 20 -s 65000 -m 1024" \
		"ibv_rc_pingpong -e -d $DEV_B -g $2 -p $PORT -c -n 20 -s 65000 -m 1024 $IP4_A"
}
long() { longest_of traffic "$@" && [ "$(cat "$TMP/longest")" -gt 30000 ]; }
short() {
	longest_of traffic "$@" && [ "$(cat "$TMP/longest")" -gt 1000 ] &&
		[ "$(cat "$TMP/longest")" -le 1514 ]
}

hosts_up 1500
t "IPv4, super-packets" long "$GID4_A" "$GID4_B"
t "IPv6, super-packets" long "$GID6_A" "$GID6_B"
t "that module goes away" eval 'hosts_down && module_unload && module_load segmentation=0'
hosts_up 1500
t "IPv4, segmentation=0: each packet by itself" short "$GID4_A" "$GID4_B"
t "IPv6, segmentation=0: each packet by itself" short "$GID6_A" "$GID6_B"

# F9: few_blocks GID-A GID-B: the kernel allocates blocks of 64 KiB for less than one in ten of the
# packets of 4 KiB. The machine may need some for other things.
TRACING=/sys/kernel/tracing
few_blocks() {
	local blocks packets
	[ -d $TRACING/events ] || mount -t tracefs none $TRACING || return 1
	echo 'order == 4' >$TRACING/events/kmem/mm_page_alloc/filter &&
		echo 1 >$TRACING/events/kmem/mm_page_alloc/enable || return 1
	packets=$(sent)
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $1 -p $PORT -c -n 100 -s 65000 -m 4096" \
		"ibv_rc_pingpong -d $DEV_B -g $2 -p $PORT -c -n 100 -s 65000 -m 4096 $IP4_A" || return 1
	packets=$(($(sent) - packets))
	echo 0 >$TRACING/events/kmem/mm_page_alloc/enable
	blocks=$(grep -c mm_page_alloc: $TRACING/trace)
	echo "$blocks blocks of 64 KiB for $packets packets"
	[ "$packets" -gt 1600 ] && [ $((blocks * 10)) -lt "$packets" ]
}
sent() { cat /sys/class/infiniband/$DEV_A/ports/1/hw_counters/sent_pkts; }
t "that wire goes away" hosts_down
hosts_up 9000
t "F9: packets of 4 KiB alone take little memory" few_blocks "$GID4_A" "$GID4_B"
finish
