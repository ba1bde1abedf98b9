#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: a wire that loses, reorders and duplicates packets costs time alone. netem, both directions.
# Data is compared byte for byte (py/ops.py), rping compares its own.
. "$(dirname "$0")/lib.sh"
export LIMIT=200
hosts_up 1500

netem() { # the arguments of tc netem, on both ends
	modprobe -q sch_netem
	in_a tc qdisc replace dev $VETH_A root netem "$@" &&
		in_b tc qdisc replace dev $VETH_B root netem "$@"
}
dropped_by() { grep -oE 'dropped [0-9]+' | cut -d' ' -f2; }
dropped() { in_a tc -s qdisc show dev $VETH_A | dropped_by; }

if ! netem loss 0; then
	skip_all "the kernel has no netem"
fi
t "1 % loss, reordering and duplication can be had" \
	netem delay 1ms loss 1% duplicate 1% reorder 95% 25%
export LIMIT_PY=900
relay_py ops --few
# rping's client compares all data; its last message may get lost, and then its server waits for
# ever.
rping_case() {
	PORT=$((PORT + 1))
	MAY_WAIT=1 pair "cm $PORT" "rping -s -a $IP4_A -p $PORT -V -v $*" \
		"rping -c -a $IP4_A -p $PORT -V -v $*"
}
t "rping with 30,000 bytes, data compared" rping_case -C 10 -S 30000
perf_case() { perf "$@"; }
t "ib_write_bw of 64 KiB" perf_case ib_write_bw 1 -s 65536 -n 20
t "ib_read_bw of 64 KiB" perf_case ib_read_bw 1 -e -s 65536 -n 20
t "ib_send_bw of 64 KiB" perf_case ib_send_bw 1 -e -s 65536 -n 20
# Both ends together lose ten or so of a thousand super-packets; one end alone now and then none.
lost() {
	local n
	n=$(($(dropped) + $(in_b tc -s qdisc show dev $VETH_B | dropped_by)))
	echo "$n packets were dropped"
	[ "$n" -gt 0 ]
}
t "packets were indeed lost" lost

# The shortest ACK timeout that a program can ask for is 8 us; eight times that, four times as long,
# is far from this round trip.
t_short_timeout() {
	netem delay 5ms && perf ib_write_bw 1 -s 1000 -n 20 -u 1 &&
		perf ib_read_bw 1 -e -s 1000 -n 20 -u 2
}
t "ACK timeouts of 8 and 16 us, a round trip of 10 ms" t_short_timeout

# A wire cut for a moment, shorter than the retries last: traffic goes on afterwards. It is cut
# after a number of packets.
sent_more() {
	[ $(($(cat /sys/class/infiniband/$DEV_B/ports/1/hw_counters/sent_pkts) - before)) -gt 500 ]
}
more_dropped() { [ "$(dropped)" -gt "$1" ]; }
cut_for_a_moment() {
	local lost
	poll $LIMIT sent_more || return 1
	lost=$(dropped)
	netem loss 100% && poll $LIMIT more_dropped "$lost"
	local status=$?
	sleep 0.3
	netem loss 0 && [ $status = 0 ]
}
cut_wire() {
	local before status=0
	netem loss 0 || return 1
	PORT=$((PORT + 1))
	before=$(cat /sys/class/infiniband/$DEV_B/ports/1/hw_counters/sent_pkts)
	cut_for_a_moment 9>&- >"$TMP/cut" 2>&1 &
	MAY_WAIT=1 pair "cm $PORT" "rping -s -a $IP4_A -p $PORT -V -C 3000" \
		"rping -c -a $IP4_A -p $PORT -V -C 3000" || status=1
	wait $! || { status=1; cat "$TMP/cut"; }
	return $status
}
t "a wire cut for 0.3 s in mid-traffic" cut_wire

# READs and WRITEs of 30 packets that the program compares. With keep_responses=0 the requester asks
# for no gap alone, and with keep_requests=0 the responder keeps no packet.
sum_of() { # COUNTER: of both devices
	cat /sys/class/infiniband/{$DEV_A,$DEV_B}/ports/1/hw_counters/"$1" |
		awk '{ sum += $1 } END { print sum }'
}
both_ways() {
	netem loss 2% || return 1
	PORT=$((PORT + 1))
	MAY_WAIT=1 pair "cm $PORT" "rping -s -a $IP4_A -p $PORT -V -C 100 -S 30000" \
		"rping -c -a $IP4_A -p $PORT -V -C 100 -S 30000"
}
t "READs and WRITEs that lose packets" both_ways
t "gaps were asked for alone" eval '[ "$(sum_of read_gaps)" -gt 0 ]'
t "requests behind a lost one were kept" eval '[ "$(sum_of kept_requests)" -gt 0 ]'
t "that module goes away" eval \
	'hosts_down && module_unload && module_load keep_responses=0 keep_requests=0'
hosts_up 1500
t "READs and WRITEs that lose packets, nothing is kept" both_ways
t "no gap was asked for alone" eval '[ "$(sum_of read_gaps)" = 0 ]'
t "no request was kept" eval '[ "$(sum_of kept_requests)" = 0 ]'
finish
