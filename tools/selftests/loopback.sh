#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: two ends on one device get the same results without packets as with them. Every operation
# (py/ops.py, py/datagrams.py), every error (py/errors.py, py/lost_datagrams.py), programs, and odd
# connections (py/loopback.py), without packets and, with the module parameter loopback=0, with
# them; a sniffer and the port's counters tell which it was. Without packets a request completes
# before anything that its receiver sends arrives: of 20,000 replies (4,000 in make test) none comes
# before the completion of the SEND that it answers (py/order.py).
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "only oxe has a way without packets"

counters() { cat /sys/class/infiniband/$DEV_A/ports/1/hw_counters/{sent,rcvd}_pkts; }

# sniffed WANT COMMAND...: the command succeeds, and packets of RoCEv2 were seen meanwhile, or none
# (WANT: some, none).
sniffed() {
	local want=$1 before dump status=0 seen
	shift
	nsenter --net=/run/netns/$NS_A tcpdump -q -i any -w "$TMP/pcap" udp port 4791 \
		>"$TMP/tcpdump" 2>&1 9>&- &
	dump=$!
	poll 60 grep -q 'listening on' "$TMP/tcpdump"
	before=$(counters)
	"$@" || status=$?
	sleep 0.5
	kill -INT $dump
	wait $dump
	cat "$TMP/tcpdump"
	seen=$(sed -n 's/^\([0-9]*\) packets* captured/\1/p' "$TMP/tcpdump")
	[ $status = 0 ] || return 1
	case $want in
	none) [ "$seen" = 0 ] && [ "$before" = "$(counters)" ] ;;
	*) [ "$seen" -gt 0 ] && [ "$before" != "$(counters)" ] ;;
	esac || { echo "captured: $seen; counters before: $before; now: $(counters)"; return 1; }
}

# From here on both hosts are host A.
one_device() {
	export OTHER=$DEV_B OTHER_GID=$GID4_B
	export DEV_B=$DEV_A GID4_B=$GID4_A GID6_B=$GID6_A
}
two_devices() { DEV_B=$OTHER GID4_B=$OTHER_GID; }

# everything WANT
everything() {
	local tool
	one_device
	export PACKETS=$1
	for tool in "ib_send_bw -e -s 100000" "ib_send_bw -e -b -s 3000" "ib_read_bw -e -s 100000" \
		"ib_write_bw -s 100000" "ib_atomic_bw -e" "ib_send_lat -e -c UD -s 100"; do
		# shellcheck disable=SC2086 # a command and its options
		VIA=loop t "$tool, packets: $1" sniffed "$1" perf ${tool%% *} 1 ${tool#* } -n 50
	done
	relay_py ops
	relay_py datagrams
	relay_py errors
	relay_py lost_datagrams
	relay_py placement
	relay_py loopback
	two_devices
}

hosts_up 4200
everything none
one_device
relay_py order
two_devices
hosts_down
module_unload && module_load loopback=0
hosts_up 4200
everything some
finish
