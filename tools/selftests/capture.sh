#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: each opcode is on the wire as tshark and scapy expect it, over IPv4 and IPv6. Every opcode
# is brought onto the wire and captured (py/opcodes.py); tshark finds nothing malformed in it, scapy
# computes the same ICRC for every packet, and the opcodes are all there. So are messages between
# queue pairs of one device, when these are switched to packets (py/switched.py).
. "$(dirname "$0")/lib.sh"
command -v tshark >/dev/null || skip_all "tshark is missing"
hosts_up 1500
pcap=$TMP/wire.pcap

# Super-packets would be captured before they are segmented: the test is about the packets that
# leave.
in_a ethtool -K $VETH_A tx-udp-segmentation off >/dev/null 2>&1
in_b ethtool -K $VETH_B tx-udp-segmentation off >/dev/null 2>&1

nsenter --net=/run/netns/$NS_A tcpdump -q -U -B 16384 -s 0 -i $VETH_A -w "$pcap.all" \
	udp port 4791 or udp port 9 >"$TMP/tcpdump" 2>&1 9>&- &
dump=$!
poll 60 grep -q 'listening on' "$TMP/tcpdump"
relay_py opcodes
# The kernel hands packets over in order, and late: once the last packet is in the file all before
# it are.
last_came() {
	in_b bash -c "echo last >/dev/udp/$IP4_A/9"
	tcpdump -r "$pcap.all" udp port 9 2>/dev/null | grep -q .
}
t "the last packet is in the file" poll 60 last_came
kill -INT $dump
wait $dump
tcpdump -r "$pcap.all" -w "$pcap" udp port 4791 2>/dev/null
cp "$pcap" "${OXE_OUT:-$TMP}/" 2>/dev/null

complete() { cat "$TMP/tcpdump"; grep -q '^0 packets dropped by kernel' "$TMP/tcpdump"; }
t "the capture is complete" complete
scapy_icrc() {
	python3 "$PY/checkpcap.py" "$pcap" >"$TMP/seen"
	local status=$?
	cat "$TMP/seen"
	return $status
}
t "scapy computes the same ICRC for every packet" scapy_icrc
# SEND and WRITE in all their forms, READ and its answers, ACK, atomics and their answer, FLUSH and
# ATOMIC WRITE, UD. RDMA
# READ of a NAKed or a lone packet has no FIRST; 0x16 and 0x17 are SEND with invalidate, last and
# only.
opcodes_seen() {
	local version opcode missing=''
	for version in 4 6; do
		for opcode in 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 16 17 1c 1d \
			64 65; do
			grep -q "^$version 0x$opcode " "$TMP/seen" || missing="$missing $version:$opcode"
		done
	done
	[ -z "$missing" ] || { echo "not on the wire (IP version:opcode):$missing"; return 1; }
}
t "every opcode was on the wire" opcodes_seen
# tshark guesses at the payload: rpcordma takes any short one for its own, and an empty UD datagram
# is malformed to it.
tshark_clean() {
	tshark -n -r "$pcap" --disable-protocol rpcordma \
		-Y '_ws.malformed && !(infiniband.deth && udp.length <= 36)' \
		>"$TMP/bad" 2>"$TMP/err" || { cat "$TMP/err"; return 1; }
	head -n 20 "$TMP/bad"
	[ ! -s "$TMP/bad" ]
}
t "tshark finds nothing malformed" tshark_clean
tshark_parses() {
	local packets parsed
	packets=$(awk '{ n += $3 } END { print n }' "$TMP/seen")
	parsed=$(tshark -n -r "$pcap" -Y infiniband.bth -T fields -e infiniband.bth.opcode 2>/dev/null |
		wc -l)
	echo "$parsed of $packets packets parsed"
	[ "$parsed" = "$packets" ] && [ "$packets" -gt 100 ]
}
t "tshark parses every packet" tshark_parses

# A device's messages to itself, by packets while its file loopback says 0: on lo, as any packets of
# a host to its own address.
[ "$LINK_TYPE" = oxe ] || finish
nsenter --net=/run/netns/$NS_A tcpdump -q -U -B 16384 -s 0 -i lo -w "$pcap.lo" udp port 4791 \
	>"$TMP/tcpdump.lo" 2>&1 9>&- &
dump=$!
poll 60 grep -q 'listening on' "$TMP/tcpdump.lo"
relay_py switched
near_packets() { tshark -n -r "$pcap.lo" -Y "$1" 2>/dev/null | grep -c .; }
# SENDs of RC and UC, which begin with a FIRST, an ACK, a datagram.
near_seen() {
	local opcode
	for opcode in 0 17 32 100; do
		[ "$(near_packets "infiniband.bth.opcode == $opcode")" -gt 0 ] ||
			{ echo "opcode $opcode was not seen"; return 1; }
	done
}
t "tshark sees the messages of a device to itself" poll 60 near_seen
kill -INT $dump
wait $dump
cp "$pcap.lo" "${OXE_OUT:-$TMP}/" 2>/dev/null
finish
