#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: packets that a router has marked (ECN) are answered by CNPs, and no others are. Each service
# and IP version, with every bit of the CNP (py/ecn.py), whose ICRC scapy computes too, and which
# tshark parses; the interval between CNPs, and the switch. A firewall on the sender marks the
# packets.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe sends no CNPs"
modprobe -q nf_tables || skip_all "the kernel has no nftables"
export NS_B VETH_B

hosts_up 1500
pcap=$TMP/cnps.pcap
nsenter --net=/run/netns/$NS_A tcpdump -q -U --immediate-mode -i $VETH_A -w "$pcap" \
	udp port 4791 and \( src host $IP4_A or src host $IP6_A \) \
	>"$TMP/tcpdump" 2>&1 9>&- &
dump=$!
poll 60 grep -q 'listening on' "$TMP/tcpdump"
relay_py ecn
kill -INT $dump
wait $dump

scapy_icrc() {
	python3 "$PY/checkpcap.py" "$pcap" >"$TMP/seen"
	local status=$?
	cat "$TMP/seen"
	[ $status = 0 ] && grep -q '^4 0x81 ' "$TMP/seen" && grep -q '^6 0x81 ' "$TMP/seen"
}
t "scapy computes the same ICRC for each CNP" scapy_icrc
tshark_parses() {
	local all parsed
	all=$(awk '$2 == "0x81" { n += $3 } END { print n }' "$TMP/seen")
	parsed=$(tshark -n -r "$pcap" 2>"$TMP/err" -Y "infiniband.bth.opcode == 0x81 &&
		infiniband.bth.m == 0 && infiniband.bth.psn == 0 && !_ws.malformed" | wc -l)
	cat "$TMP/err"
	echo "$parsed of $all CNPs parsed"
	[ "$parsed" = "$all" ] && [ "$all" -gt 0 ]
}
t "tshark parses each CNP" tshark_parses

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
