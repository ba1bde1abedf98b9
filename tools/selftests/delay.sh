#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: with congestion_control=delay messages of four connections pass a slow queue (tbf) with the
# right bytes, packets are not ECN-capable, and the queue drops fewer of them than with cubic
# (py/delay.py).
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no congestion control"
modprobe -q sch_tbf || skip_all "the kernel has no tbf"
export NS_A VETH_A NS_B VETH_B

# The packets that a queue of 30 Mb/s and 64 kB, at host B, drops of what B sends: in $dropped. Any
# machine sends faster than that.
through_queue() {
	in_b tc qdisc replace dev $VETH_B root handle 1: tbf rate 30mbit burst 5k limit 64k
	relay_py delay "$1"
	dropped=$(in_b tc -s qdisc show dev $VETH_B | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p')
	echo "$1: the queue dropped $dropped packets" | diag
}

hosts_up 1500
through_queue cubic
of_cubic=$dropped
t "the module with congestion_control=delay" eval \
	'hosts_down && module_unload && module_load congestion_control=delay'
chosen() { [ "$(cat /sys/module/oxe/parameters/congestion_control)" = delay ]; }
t "sysfs shows it" chosen
hosts_up 1500
through_queue delay
t "the queue drops fewer packets than with cubic" test "$dropped" -lt "$of_cubic"
finish
