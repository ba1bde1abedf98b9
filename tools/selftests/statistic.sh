#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: rdma statistic qp counts what a queue pair does. A counter has the packets and bytes of
# the queue pairs that are bound to it, and of no other; what is lost, repeated and refused; bound
# by hand or by itself. The port's own counters stay right, also when queue pairs and processes end,
# and when the device goes away (py/statistic.py).
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no counters of queue pairs"
hosts_up 1500
modprobe -q sch_netem
export NS_A NS_B VETH_A VETH_B
relay_py statistic

# The device goes away under a process whose queue pair is bound, and a kernel user's that is.
gone() {
	python3 -u "$PY/statistic.py" hold >"$TMP/hold" 2>&1 9>&- &
	local pid=$!
	poll 60 grep -qx bound "$TMP/hold" || { cat "$TMP/hold"; return 1; }
	# The management QP: ib_core lists it under its number and its port's.
	rdma statistic qp bind link $DEV_A/1 lqpn $((1 | 1 << 24)) &&
		rdma statistic qp show link $DEV_A/1 && link_del $DEV_A
	local status=$?
	kill_wait $pid
	[ $status = 0 ] && poll 60 not_there
}
not_there() { [ ! -d /sys/class/infiniband/$DEV_A ]; }
t "a device goes away with its counters" gone
again() {
	link_add $DEV_A $VETH_A $NS_A && [ -z "$(rdma statistic qp show link $DEV_A/1)" ]
}
t "the next device has none" again
finish
