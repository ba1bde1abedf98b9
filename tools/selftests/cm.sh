#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: programs of librdmacm work between two hosts and on one device, over IPv4 and IPv6. rping
# with its data compared, ucmatose, udaddy, rdma_server and rdma_client, rsockets (riostream),
# cmtime. mckey is in mcast.sh.
. "$(dirname "$0")/lib.sh"
hosts_up 4200

both() { # READY-PORT SERVER CLIENT: the ports are the caller's
	pair "cm $1" "$2" "$3"
}
next() { PORT=$((PORT + 1)); }
in_ns_a="nsenter --net=/run/netns/$NS_A"

rping_case() { # ADDRESS OPTION...
	local address=$1
	shift
	next
	both $PORT "rping -s -a $address -p $PORT -v -V $*" "rping -c -a $address -p $PORT -v -V $*"
}
t "rping, 20 times, data compared" rping_case $IP4_A -C 20
t "rping of 1 KiB... 65,000 bytes" rping_case $IP4_A -C 5 -S 65000
t "rping over IPv6" rping_case $IP6_A -C 20
t "rping, queue pairs made and moved by the program (-q)" rping_case $IP4_A -C 10 -q
rping_from() { # ADDRESS OWN-ADDRESS
	next
	both $PORT "rping -s -a $1 -p $PORT -v -V -C 10" "rping -c -a $1 -I $2 -p $PORT -v -V -C 10"
}
t "rping from an address (-I)" rping_from $IP4_A $IP4_B
t "rping from an IPv6 address (-I)" rping_from $IP6_A $IP6_B
rping_loop() {
	next
	both $PORT "rping -s -a $IP4_A -p $PORT -v -V -C 10" \
		"$in_ns_a rping -c -a $IP4_A -p $PORT -v -V -C 10"
}
t "rping on one device" rping_loop

# A persistent server takes one client after another; it never ends by itself.
rping_persistent() {
	local pid status=0
	next
	nsenter --net=/run/netns/$NS_A rping -s -P -a $IP4_A -p $PORT 9>&- &
	pid=$!
	poll 60 cm_listening $PORT || status=1
	for _ in 1 2 3 4; do
		in_b timeout $((LIMIT * SLOW)) rping -c -a $IP4_A -p $PORT -C 5 -V || status=1
	done
	kill_wait $pid
	return $status
}
t "rping, one server and four clients in turn" rping_persistent

ucmatose_case() { # ADDRESS OPTION...
	local address=$1
	shift
	next
	both $PORT "ucmatose -b $address -p $PORT $*" "ucmatose -s $address -p $PORT $*"
}
t "ucmatose" ucmatose_case $IP4_A
t "ucmatose over IPv6" ucmatose_case $IP6_A -f ipv6
t "ucmatose, 20 connections, 20 messages of 5,000 bytes" ucmatose_case $IP4_A -c 20 -C 20 -S 5000
t "ucmatose with a type of service" ucmatose_case $IP4_A -t 8

udaddy_case() { # ADDRESS OPTION...
	local address=$1
	shift
	next
	both 7174 "udaddy -b $address $*" "udaddy -s $address $*"
}
t "udaddy" udaddy_case $IP4_A
t "udaddy over IPv6" udaddy_case $IP6_A -f ipv6
t "udaddy, 5 connections, 20 messages of 1,000 bytes" udaddy_case $IP4_A -c 5 -C 20 -S 1000

simple() { next; both $PORT "rdma_server -s $IP4_A -p $PORT" "rdma_client -s $IP4_A -p $PORT"; }
t "rdma_server and rdma_client" simple
riostream_case() {
	next
	both $PORT "riostream -b $IP4_A -p $PORT $*" "riostream -s $IP4_A -p $PORT $*"
}
t "riostream (rsockets), 64 KiB, data compared" riostream_case -S 65536 -C 20 -I 5 -T v
t "riostream, blocking, 1,000 bytes, data compared" riostream_case -S 1000 -C 20 -I 5 -T v -T b

cmtime_case() {
	local pid status=0
	next
	# rdma-core 65's is for many hosts, which meet by TCP at one of them, and all of which end.
	if cmtime -h 2>&1 | grep -q controller; then
		pair "tcp $PORT" "cmtime -L -b $IP4_A -C $IP4_A -p $PORT -c 20" \
			"cmtime -b $IP4_B -C $IP4_A -p $PORT -c 20"
		return
	fi
	nsenter --net=/run/netns/$NS_A cmtime -b $IP4_A -p $PORT -c 20 9>&- &
	pid=$!
	poll 60 cm_listening $PORT || status=1
	[ $status = 1 ] || in_b timeout $((LIMIT * SLOW)) cmtime -s $IP4_A -p $PORT -c 20 || status=$?
	kill_wait $pid
	return $status
}
t "cmtime, 20 connections" cmtime_case

# No listener there: the client is told so, at once.
t "a client without a server is refused" fails "reject|unreach|refused|RDMA_CM_EVENT" \
	in_b timeout $((LIMIT * SLOW)) rping -c -a $IP4_A -p 1 -C 1 -v
finish
