#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: the counters that every RDMA port has, ports/1/counters in sysfs, where monitors look:
# bytes in words of four, packets, errors, links that went down. Each says what the driver's own
# counter says, and both ends of a wire agree.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe counts otherwise"

at() { cat "/sys/class/infiniband/$1/ports/1/$2"; } # DEVICE FILE
# fits COUNT VALUE [UNIT]: VALUE is COUNT, in that unit.
fits() { [ "$2" = $(($1 / ${3:-1})) ] || { echo "$2 for $1"; false; }; }
# agree DEVICE: the port's counters are made from the driver's.
agree() {
	fits "$(at "$1" hw_counters/sent_bytes)" "$(at "$1" counters/port_xmit_data)" 4 &&
		fits "$(at "$1" hw_counters/rcvd_bytes)" "$(at "$1" counters/port_rcv_data)" 4 &&
		fits "$(at "$1" hw_counters/sent_pkts)" "$(at "$1" counters/port_xmit_packets)" &&
		fits "$(at "$1" hw_counters/rcvd_pkts)" "$(at "$1" counters/port_rcv_packets)" &&
		fits "$(at "$1" hw_counters/link_downed)" "$(at "$1" counters/link_downed)"
}
# ib_core keeps the values of hw_counters for ten milliseconds.
settled() { sleep 0.1; }
exchange() { # BYTES MESSAGES PATH-MTU
	local a b options
	settled
	a=$(at $DEV_A hw_counters/sent_bytes) b=$(at $DEV_B hw_counters/rcvd_bytes)
	PORT=$((PORT + 1))
	options="-p $PORT -c -n $2 -s $1 -m $3"
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $GID4_A $options" \
		"ibv_rc_pingpong -d $DEV_B -g $GID4_B $options $IP4_A" || return 1
	settled
	a=$(($(at $DEV_A hw_counters/sent_bytes) - a))
	b=$(($(at $DEV_B hw_counters/rcvd_bytes) - b))
	echo "A sent $a bytes, B received $b"
	# Beside the payload: BTH and ICRC of each packet, and the ACKs for the other way.
	[ $a = $b ] && [ $a -ge $(($1 * $2)) ] && [ $a -le $(($1 * $2 * 110 / 100 + 4096)) ] &&
		agree $DEV_A && agree $DEV_B
}
readable() {
	local file count=0
	for file in "/sys/class/infiniband/$DEV_A/ports/1/counters/"*; do
		grep -qx '[0-9]*' "$file" || { echo "$file: $(cat "$file")"; return 1; }
		count=$((count + 1))
	done
	echo "$count files"
	[ $count -ge 17 ]
}
errors() {
	local before
	before=$(at $DEV_A counters/port_rcv_errors)
	in_b bash -c "printf x >/dev/udp/$IP4_A/4791"
	poll 20 eval "[ \$(at $DEV_A counters/port_rcv_errors) = $((before + 1)) ]"
}
down() {
	local before
	before=$(at $DEV_A counters/link_downed)
	in_a ip link set $VETH_A down
	poll 20 eval "[ \$(at $DEV_A counters/link_downed) = $((before + 1)) ]" && settled &&
		agree $DEV_A
}

hosts_up 1500
t "every file has a number" readable
t "super-packets: both ends count the same bytes" exchange 65000 20 1024
t "short messages" exchange 64 50 1024
t "a datagram that is no packet is an error" errors
t "a link that goes down is counted" down
finish
