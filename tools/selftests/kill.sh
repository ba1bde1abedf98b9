#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: a process that is killed in mid-transfer leaves nothing behind. Client, server and both
# at once, many times, at moments that differ: the survivor gets its error and ends, and the next
# pair works.
. "$(dirname "$0")/lib.sh"
hosts_up 4200

# victim READY SERVER CLIENT WHO DELAY: start both; after DELAY seconds of traffic kill WHO (a, b or
# ab). The other must end by itself, or is ended when it waits for ever (a perftest server does):
# the test is that every object goes.
victim() {
	local ready=$1 server=$2 client=$3 who=$4 delay=$5 a b
	nsenter --net=/run/netns/$NS_A $server >"$TMP/server" 2>&1 9>&- &
	a=$!
	case $ready in
	tcp*) poll 60 listening "$HOLD_A" "${ready#tcp }" ;;
	cm*) poll 60 cm_listening "${ready#cm }" ;;
	esac || { kill_wait $a; cat "$TMP/server"; return 1; }
	nsenter --net=/run/netns/$NS_B $client >"$TMP/client" 2>&1 9>&- &
	b=$!
	sleep "$delay"
	case $who in
	a) kill -9 $a ;;
	b) kill -9 $b ;;
	ab) kill -9 $a $b ;;
	esac
	sleep 0.2
	kill_wait $a $b
	poll 60 resources_back || { resources; rdma resource show qp; return 1; }
}
next() { PORT=$((PORT + 1)); }
flood() { # TOOL WHO DELAY OPTION...
	local tool=$1 who=$2 delay=$3
	shift 3
	next
	victim "tcp $PORT" "$tool -F -p $PORT -d $DEV_A -x $GID4_A -n 1000000 $*" \
		"$tool -F -p $PORT -d $DEV_B -x $GID4_B -n 1000000 $* $IP4_A" "$who" "$delay"
}
ping_cm() {
	next
	victim "cm $PORT" "rping -s -a $IP4_A -p $PORT -S 10000" \
		"rping -c -a $IP4_A -p $PORT -S 10000" "$1" "$2"
}

for who in a b ab; do
	case $who in a) text="server" ;; b) text="client" ;; ab) text="both" ;; esac
	t "ib_send_bw, $text killed" flood ib_send_bw $who 1.6 -s 262144
	t "ib_write_bw, $text killed" flood ib_write_bw $who 1.7 -s 1048576
	t "ib_read_bw, $text killed" flood ib_read_bw $who 1.8 -s 1048576 -e
	t "ib_atomic_bw, $text killed" flood ib_atomic_bw $who 1.5
	t "ib_send_bw over UD, $text killed" flood ib_send_bw $who 1.5 -c UD -s 1024
	t "rping, $text killed" ping_cm $who 1.5
done
# Moments spread over set-up and traffic.
for delay in 0.1 0.3 0.5 0.7 0.9 1.1; do
	t "ib_send_bw on 4 QPs, both killed after $delay s" flood ib_send_bw ab $delay -s 65536 -q 4
done
alive() { perf ib_send_bw 1 -e -s 65536 -n 20; }
t "the next pair works" alive
finish
