#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: packets that a firewall asks a process about (NFQUEUE) arrive, and bottom halves are off.
# py/nfqueue.py accepts all, super-packets whole, beside traffic that it does not ask about. Packets
# that come back go on from the process. The hook must not take them there, where bottom halves are
# on; the socket takes them, with bottom halves off, as the function tracer tells.
. "$(dirname "$0")/lib.sh"
modprobe -q nfnetlink_queue && modprobe -q nft_queue || skip_all "the kernel has no NFQUEUE"

# The firewall asks only about packets from host B's first address.
OTHER4_B=10.77.0.3
queue_up() {
	in_a nft -f - <<-T || return 1
		table inet oxe {
			chain in {
				type filter hook input priority 0;
				ip saddr $IP4_B udp dport 4791 queue num 7
				ip6 saddr $IP6_B udp dport 4791 queue num 7
			}
		}
	T
	nsenter --net=/run/netns/$NS_A python3 -u "$PY/nfqueue.py" 7 >"$TMP/queue" 2>&1 9>&- &
	QUEUE=$!
	poll 60 grep -q ready "$TMP/queue" || { cat "$TMP/queue"; return 1; }
	ip -n $NS_B addr add $OTHER4_B/24 dev $VETH_B && GID4_OTHER=$(wait_gid $DEV_B $OTHER4_B)
}

# The contexts in which packets are looked at, from the function tracer: d, D or b is bottom halves
# or interrupts off, s and h a softirq or interrupt.
TRACING=/sys/kernel/tracing
watch_contexts() {
	[ -e $TRACING/set_ftrace_filter ] || mount -t tracefs tracing $TRACING 2>/dev/null
	[ -e $TRACING/set_ftrace_filter ] || { echo "the kernel has no function tracer"; return 4; }
	echo 'oxe_rx_attrs' >$TRACING/set_ftrace_filter &&
		echo function >$TRACING/current_tracer && echo 1 >$TRACING/tracing_on
}
right_contexts() {
	local all wrong
	[ "$(cat $TRACING/current_tracer 2>/dev/null)" = function ] ||
		{ echo "the kernel has no function tracer"; return 4; }
	all=$(grep -c 'oxe_rx_attrs <-' $TRACING/trace)
	grep 'oxe_rx_attrs <-' $TRACING/trace | grep -vE '\] +(.{2}[sSh]|[dDb])' >"$TMP/wrong"
	wrong=$(wc -l <"$TMP/wrong")
	head -n 5 "$TMP/wrong"
	echo "looked at $all times, with bottom halves on $wrong times"
	[ "$all" -gt 100 ] && [ "$wrong" = 0 ]
}

# beside COMMAND...: while traffic of another connection, from host B's other address, goes by.
beside() {
	local pid status=0
	PORT=$((PORT + 1))
	nsenter --net=/run/netns/$NS_A ib_send_bw -F -e -p $PORT -d $DEV_A -x "$GID4_A" \
		-s 30000 -n 1000000 >"$TMP/other" 2>&1 9>&- &
	pid=$!
	poll 60 listening "$HOLD_A" $PORT || { cat "$TMP/other"; return 1; }
	nsenter --net=/run/netns/$NS_B ib_send_bw -F -e -p $PORT -d $DEV_B -x "$GID4_OTHER" \
		-s 30000 -n 1000000 $IP4_A >"$TMP/other" 2>&1 9>&- &
	"$@" || status=$?
	kill_wait $pid $!
	return $status
}
compared() { # GID-A GID-B
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -e -d $DEV_A -g $1 -p $PORT -c -n 20 -s 65000 -m 1024" \
		"ibv_rc_pingpong -e -d $DEV_B -g $2 -p $PORT -c -n 20 -s 65000 -m 1024 $IP4_A"
}
asked() {
	kill $QUEUE
	wait $QUEUE
	cat "$TMP/queue"
	grep -qE '^[1-9][0-9]* packets, the longest of [0-9]{5} bytes$' "$TMP/queue"
}

hosts_up 1500
t "a firewall that asks a process" queue_up
t "contexts are watched" watch_contexts
t "IPv4 through the process, data compared" beside compared "$GID4_A" "$GID4_B"
t "IPv6 through the process, data compared" beside compared "$GID6_A" "$GID6_B"
t "SEND through the process" beside perf ib_send_bw 1 -e -s 60000 -n 50
t "the process was asked about super-packets" asked
t "packets are only taken with bottom halves off" right_contexts
finish
