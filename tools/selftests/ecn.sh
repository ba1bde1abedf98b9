#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: packets that a router has marked (ECN) are answered by CNPs, and no others are. Each service
# and IP version, with every bit of the CNP (py/ecn.py), whose ICRC scapy computes too, and which
# tshark parses; the interval between CNPs, and the switch. A firewall on the sender marks the
# packets. A judge sees in a capture that no CNP is without a mark (py/cnps.py).
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/cnps.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe sends no CNPs"
modprobe -q nf_tables || skip_all "the kernel has no nftables"
export NS_B VETH_B

hosts_up 1500
pcap=$TMP/cnps.pcap
watch_begin "$pcap.all" $VETH_A nsenter --net=/run/netns/$NS_A
relay_py ecn
watch_end
t "the judge of the capture finds nothing" judged "$pcap.all" --rewritten $IP4_B \
	--rewritten $IP6_B --needs marked --needs CNPs
tcpdump -r "$pcap.all" -w "$pcap" src host $IP4_A or src host $IP6_A 2>/dev/null

scapy_icrc() {
	python3 "$PY/checkpcap.py" "$pcap" >"$TMP/seen"
	local status=$?
	cat "$TMP/seen"
	[ $status = 0 ] && grep -q '^4 0x81 ' "$TMP/seen" && grep -q '^6 0x81 ' "$TMP/seen"
}
t "scapy computes the same ICRC for each CNP" scapy_icrc
t "tshark parses each CNP" cnps_parsed "$pcap"

reload() { hosts_down && module_unload && module_load "$1"; }
again() { # PARAMETER CNPS
	t "the module with $1" reload "$1"
	hosts_up 1500
	relay_py ecn interval "$2"
}
again np_min_time_between_cnps=600000000 1
again np_min_time_between_cnps=0 20
again roce_np=0 0
finish
