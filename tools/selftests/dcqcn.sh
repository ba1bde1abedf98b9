#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: with congestion_control=dcqcn congestion notifications cut the rate of a connection, and its
# packets with payload are ECN-capable; without, neither (py/dcqcn.py). A firewall on the sender
# marks packets, and then a queue (RED) does, whose senders are notified. All data is
# compared. A name that is no controller's is refused. A judge looks at captures (py/cnps.py).
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/cnps.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no congestion control"
modprobe -q nf_tables || skip_all "the kernel has no nftables"
export NS_A VETH_A NS_B VETH_B
watch() { # NAME PROGRAM ARGUMENT: relay_py, with a capture
	watch_begin "$TMP/$1.pcap" $VETH_A nsenter --net=/run/netns/$NS_A
	relay_py "${@:2}"
	watch_end
}

hosts_up 1500
watch off dcqcn off
t "off: the judge of the capture finds nothing" judged "$TMP/off.pcap" --rewritten $IP4_B \
	--needs marked --needs CNPs
t "that module goes away" eval 'hosts_down && module_unload'
refused() {
	! insmod "$OXE_MODULE" congestion_control=reno && [ ! -e /sys/module/oxe ] &&
		dmesg | tail -n 20 | grep -q 'control is cubic, dcqcn or delay, and not reno'
}
t "a name that is no controller's is refused, with a line that says so" refused
t "the module with congestion_control=dcqcn" module_load congestion_control=dcqcn
chosen() { [ "$(cat /sys/module/oxe/parameters/congestion_control)" = dcqcn ]; }
t "sysfs shows it" chosen
hosts_up 1500
both_react=(--reacts "$IP4_A" --reacts "$IP4_B" --reacts "$IP6_A" --reacts "$IP6_B")
watch on dcqcn on
t "on: the judge of the capture finds nothing" judged "$TMP/on.pcap" "${both_react[@]}" \
	--needs capable

# Where the CPU is emulated it takes long for a super-packet, which gets one CNP, and a rate near
# the line's comes back until the next: so this is without.
t "the module with segmentation=0, too" eval \
	'hosts_down && module_unload && module_load congestion_control=dcqcn segmentation=0'
hosts_up 1500
relay_py dcqcn cuts
t "the module with super-packets again" eval \
	'hosts_down && module_unload && module_load congestion_control=dcqcn'
hosts_up 1500

# A queue of 400 Mb/s that marks from 20 packets on.
red() {
	modprobe -q sch_tbf && modprobe -q sch_red &&
		in_b tc qdisc replace dev $VETH_B root handle 1: \
			tbf rate 400mbit burst 20k limit 2m &&
		in_b tc qdisc replace dev $VETH_B parent 1:1 handle 2: \
			red limit 1000000 min 20000 max 30000 avpkt 1000 burst 25 probability 1 \
			bandwidth 400mbit ecn
}
if red; then
	watch queue dcqcn queue
	t "queue: the judge of the capture finds nothing" judged "$TMP/queue.pcap" \
		"${both_react[@]}" --needs capable --needs marked --needs CNPs
	t "queue: tshark parses each CNP" cnps_parsed "$TMP/queue.pcap"
	in_b tc -s qdisc show dev $VETH_B | diag
else
	skip "a queue that marks" "the kernel has no tbf or red"
fi
finish
