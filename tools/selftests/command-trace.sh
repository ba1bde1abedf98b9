#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: oxe trace shows the events of a message in their order, those of one process or queue
# pair alone, as JSON too; says why it cannot; and leaves nothing behind, however it ends.
. "$(dirname "$0")/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the command is built for x86-64 alone"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no trace events"
TRACING=/sys/kernel/tracing
[ -e $TRACING/instances ] || mount -t tracefs tracing $TRACING 2>/dev/null
[ -e $TRACING/instances ] || skip_all "the kernel has no tracefs"
hosts_up 1500

gone() { [ -z "$(ls $TRACING/instances)" ]; }
# tracing ARGUMENT...: oxe trace in the background, in host A's namespace, which has the netdev of
# that device alone; $! is its process, and its events are in $TMP/trace.
tracing() {
	nsenter --net=/run/netns/$NS_A oxe trace "$@" >"$TMP/trace" 2>&1 9>&- &
	poll 30 eval '[ "$(cat $TRACING/instances/oxe-*/events/oxe/*/enable 2>/dev/null |
		grep -c 1)" != 0 ]' || { cat "$TMP/trace"; return 1; }
}
pingpong() { # ITERATIONS
	PORT=$((PORT + 1))
	pair "tcp $PORT" "ibv_rc_pingpong -p $PORT -e -n $1 -s 64 -d $DEV_A -g $GID4_A" \
		"ibv_rc_pingpong -p $PORT -e -n $1 -s 64 -d $DEV_B -g $GID4_B $IP4_A"
}
in_order() {
	local pid
	tracing -n 400 -e post,transmit,completion || return
	pid=$!
	pingpong 100 && poll 30 eval "! kill -0 $pid 2>/dev/null" && wait $pid || return
	head -n 3 "$TMP/trace"
	! grep -vE "^[0-9.]+ ($DEV_A|$VETH_B) qp [0-9]+ +(post|transmit|completion) " \
		"$TMP/trace" &&
		[ "$(wc -l <"$TMP/trace")" = 400 ] && gone
}
json() {
	local pid
	tracing -j -n 20 -e completion || return
	pid=$!
	pingpong 50 && wait $pid || return
	python3 - "$TMP/trace" "$DEV_A" <<-'END'
	import json, sys
	events = [json.loads(line) for line in open(sys.argv[1])]
	assert len(events) == 20, len(events)
	for event in events:
	    assert event["event"] == "completion" and event["qpn"] > 0, event
	    assert event["device"] in (sys.argv[2], None) and event["time"] > 0, event
	assert sys.argv[2] in {event["device"] for event in events}
	END
}
of_one() {
	local pid
	tracing 4242424 || return
	pid=$!
	pingpong 10 && kill $pid
	wait $pid
	cat "$TMP/trace"
	[ ! -s "$TMP/trace" ] && poll 30 gone
}
killed() {
	local pid
	tracing || return
	pid=$!
	kill -9 $pid
	wait $pid 2>/dev/null
	poll 30 gone
}
# refused SENTENCE COMMAND...: with status 3, and nothing is left.
refused() {
	local want=$1 status=0 out
	shift
	out=$("$@" 2>&1) || status=$?
	echo "$out"
	[ $status = 3 ] && [ "$out" = "oxe: $want" ] && gone
}
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
not_loaded() {
	hosts_down && module_unload || return
	refused "the module oxe is not loaded: oxe status says what to do" oxe trace || return
	module_load && hosts_up 1500
}

t "the events of messages, and an end after so many" in_order
t "JSON" json
t "a queue pair that has none, and an end from outside" of_one
t "it is killed" killed
t "an unknown event" refused "there is no event nix: ls $TRACING/events/oxe has them" \
	oxe trace -e nix
t "a process without queue pairs" refused \
	"process 1 has no queue pairs: rdma resource show qp has those that have" oxe trace -p 1
t "without privileges" refused "trace events are for root alone" as_nobody oxe trace
t "the module is not loaded" not_loaded
finish
