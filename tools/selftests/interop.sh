#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: oxe and the stock rdma_rxe understand each other, as server and as client. By programs that
# know nothing of either: send, write, read (1, 1023, 65537 bytes), atomics, UC, UD, rping,
# ucmatose. Ends in a table. Both machines run this script; the server's side carries out what the
# client's asks for (py/agent.py). With "tap" the wire is one of NICs that segment UDP (USO):
# super-packets are handed to the NIC whole, reach the other machine whole, and its kernel segments
# them where it must (for rdma_rxe). Such NICs need /dev/net/tun and a kernel (6.2) that knows USO
# there.
# vm: time=1200 peers=oxe:rxe,rxe:oxe,rxe:oxe:tap,oxe:oxe:tap short_peers=rxe:oxe
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/agent.sh"
SIX_SERVER=fd99::1 SIX_CLIENT=fd99::2

up() {
	local six=$SIX_CLIENT
	[ "$OXE_ROLE" = client ] || six=$SIX_SERVER
	ip link set eth0 up && ip -6 addr add $six/64 dev eth0 nodad &&
		need_module && link_add $DEV eth0 &&
		GID4=$(wait_gid $DEV "$OXE_ADDR") && GID6=$(wait_gid $DEV $six)
}
t "$OXE_ROLE: a $LINK_TYPE device on the wire" up

export GID4 GID6
[ "$OXE_ROLE" = client ] || serve
agent_answers
uso() { ethtool -k eth0 | grep -x 'tx-udp-segmentation: on'; }
if [ "$OXE_WIRE" = tap ]; then
	uso >"$TMP/uso" || skip_all "the NIC does not segment UDP; does the machine's tap driver know USO?"
fi

table=$TMP/table
# row NAME COMMAND...: a case, and its line in the table.
row() {
	local name=$1 before=$FAILED verdict=ok
	t "$OXE_PEER_TYPE server, $LINK_TYPE client: $1" "${@:2}"
	[ "$FAILED" = "$before" ] || verdict=FAILED
	printf '%-34s %s\n' "$name" "$verdict" >>"$table"
}
next() { PORT=$((PORT + 1)); }
pingpong() { # PROGRAM OPTION...
	local program=$1
	shift
	next
	both "tcp:$PORT" "$program -d \$DEV -g \$GID4 -p $PORT $*" \
		"$program -d $DEV -g $GID4 -p $PORT $* $OXE_PEER_ADDR"
}
pingpong6() {
	next
	both "tcp:$PORT" "ibv_rc_pingpong -d \$DEV -g \$GID6 -p $PORT $*" \
		"ibv_rc_pingpong -d $DEV -g $GID6 -p $PORT $* $OXE_PEER_ADDR"
}
# -u 18: a slow machine needs more than the 67 ms that perftest's QPs wait for an ACK; four QPs of
# rxe's take seconds.
perftest() {
	next
	both "tcp:$PORT" "$1 -F -d \$DEV -x \$GID4 -p $PORT -u 18 ${*:2}" \
		"$1 -F -d $DEV -x $GID4 -p $PORT -u 18 ${*:2} $OXE_PEER_ADDR"
}
cm() { # SERVER CLIENT, with their ports
	both "cm:$PORT" "$1" "$2"
}
# As ibv_rc_pingpong -c, which cannot be told to wait longer than 67 ms for an ACK. A slow machine
# takes that long for a message of 65 packets, and rxe hangs if the ACK comes while it sends such a
# message a second time.
echo_case() { # SIZE COUNT
	next
	both "tcp:$PORT" "python3 $PY/echo.py $PORT $*" \
		"DEV=$DEV GID4=$GID4 python3 $PY/echo.py $PORT $* $OXE_PEER_ADDR"
}
# 100 words, posted by librxe on both sides. The ICRC that rdma_rxe computes for a FLUSH covers its
# headers twice, so that rdma_rxe alone takes it.
placed_case() {
	local flush=0
	[ "$OXE_PEER_TYPE" != "$LINK_TYPE" ] || flush=1
	next
	both "tcp:$PORT" "python3 $PY/placed.py $PORT 100 $flush" \
		"DEV=$DEV GID4=$GID4 python3 $PY/placed.py $PORT 100 $flush $OXE_PEER_ADDR"
}
ping_rdma() {
	next
	cm "rping -s -a $1 -p $PORT -V -v ${*:2}" "rping -c -a $1 -p $PORT -V -v ${*:2}"
}

on_wire() { cat /sys/class/net/eth0/statistics/tx_packets; }
wire_before=$(on_wire) made_before=$(sent)
for size in 1 1023; do
	row "send $size bytes, data compared" pingpong ibv_rc_pingpong -c -e -n 30 -s $size
done
row "send 65537 bytes, data compared" echo_case 65537 30
for size in 1 1023 65537; do
	row "send bandwidth, $size bytes" perftest ib_send_bw -e -s $size -n 20
	row "write $size bytes" perftest ib_write_bw -s $size -n 20
	row "write latency, $size bytes" perftest ib_write_lat -s $size -n 10
	row "read $size bytes" perftest ib_read_bw -e -s $size -n 20
done
# More packets than one READ request of oxe asks for.
row "read 1,000,001 bytes" perftest ib_read_bw -e -s 1000001 -n 10
whole() {
	local wire=$(($(on_wire) - wire_before)) made=$(($(sent) - made_before))
	echo "$made packets, handed to the NIC as $wire"
	[ "$wire" -lt $((made / 2)) ]
}
if [ "$OXE_WIRE" = tap ]; then t "super-packets go to the NIC whole" whole; fi
row "fetch and add" perftest ib_atomic_bw -e -A FETCH_AND_ADD -n 50
row "compare and swap" perftest ib_atomic_bw -e -A CMP_AND_SWAP -n 50
row "ATOMIC WRITE, FLUSH" placed_case
row "both directions, 4 QPs" perftest ib_send_bw -b -q 4 -s 4096 -n 30
row "UC" pingpong ibv_uc_pingpong -e -n 50 -s 10001
row "UC write bandwidth" perftest ib_write_bw -c UC -s 65537 -n 20
row "UD" pingpong ibv_ud_pingpong -e -n 50 -s 1024
row "UD bandwidth" perftest ib_send_bw -e -c UD -s 1000 -n 50
row "send over IPv6" pingpong6 -c -e -n 30 -s 1000
row "rping, data compared" ping_rdma "$OXE_PEER_ADDR" -C 10
row "rping 30,000 bytes, data compared" ping_rdma "$OXE_PEER_ADDR" -C 5 -S 30000
row "rping over IPv6" ping_rdma $SIX_SERVER -C 10
matose() {
	next
	cm "ucmatose -b $OXE_PEER_ADDR -p $PORT -c 3 -C 10 -S 3000" \
		"ucmatose -s $OXE_PEER_ADDR -p $PORT -c 3 -C 10 -S 3000"
}
row "ucmatose" matose
# shellcheck disable=SC2317 # called through row
daddy() { PORT=7174; cm "udaddy -b $OXE_PEER_ADDR" "udaddy -s $OXE_PEER_ADDR"; PORT=21000; }
row "udaddy" daddy
order quit >/dev/null
t "client: the device goes away" link_del $DEV
{ echo "server $OXE_PEER_TYPE, client $LINK_TYPE:"; cat "$table"; } | diag
finish
