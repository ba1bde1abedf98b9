#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: beside rdma_rxe, a wire that loses, reorders and marks packets (ECN) costs time alone. Two
# machines, both directions at the same time, all kinds of requests of RC, every byte compared
# (py/impaired.py). oxe runs with congestion_control=dcqcn: it marks its payload as ECN-capable and
# sends CNPs, which rdma_rxe drops. A judge looks at a capture of it all (py/cnps.py). It does not
# look at the time between CNPs: where a virtual machine has no CPU for some milliseconds, those of
# the other machine come together.
# vm: time=600 peers=rxe:oxe,oxe:rxe,oxe:oxe short_peers=rxe:oxe
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/agent.sh"
. "$HERE/lib/cnps.sh"

reacting() {
	[ "$LINK_TYPE" = oxe ] || return 0
	module_unload && module_load congestion_control=dcqcn segmentation=0 \
		np_min_time_between_cnps=1000
}
up() {
	need_module && reacting && ip link set eth0 up && link_add $DEV eth0 &&
		GID4=$(wait_gid $DEV "$OXE_ADDR")
}
t "$OXE_ROLE: a $LINK_TYPE device on the wire" up

# impair KIND: what this machine sends is lost, reordered, marked, or all of these. Of oxe's packets
# those are marked that are ECN-capable, as by a router. None of rdma_rxe's is, and they are marked
# all the same.
impair() {
	local netem='' which='meta mark 0' lost='loss 1%' late='delay 500us reorder 95%'
	nft delete table ip oxe_impaired 2>/dev/null
	case $1 in
	loss) netem=$lost ;;
	order) netem=$late ;;
	all) netem="$lost $late" ;;
	esac
	modprobe -q sch_netem
	# shellcheck disable=SC2086 # split on purpose
	tc qdisc replace dev eth0 root netem ${netem:-limit 1000} || return 1
	[ "$1" = marks ] || [ "$1" = all ] || return 0
	[ "$LINK_TYPE" != oxe ] || which='ip ecn ect0'
	nft -f - <<-T
		table ip oxe_impaired {
			chain out {
				type filter hook output priority 0;
				udp dport 4791 $which numgen random mod 10 == 0 ip ecn set ce
			}
		}
	T
}
export -f impair
export GID4 LINK_TYPE
[ "$OXE_ROLE" = client ] || serve
agent_answers

pcap=$TMP/wire.pcap
ethtool -K eth0 gro off tx-udp-segmentation off >/dev/null 2>&1
watch_begin "$pcap" eth0

case_of() { # KIND ROUNDS
	local ordered=1 run
	[ "$1" != order ] && [ "$1" != all ] || ordered=0
	impair "$1" && server impair "$1" || return 1
	PORT=$((PORT + 1))
	run="python3 $PY/impaired.py $PORT $2 $ordered"
	both "tcp:$PORT" "$run" "DEV=$DEV GID4=$GID4 PAIRS=$PAIRS $run $OXE_PEER_ADDR" || return 1
	tc -s qdisc show dev eth0
	cat "$TMP/client" | diag
}
between="$OXE_PEER_TYPE and $LINK_TYPE"
t "$between: no impairment" case_of none 5
t "$between: 1 % lost" case_of loss 30
t "$between: 5 % late by 0.5 ms" case_of order 30
t "$between: 10 % marked" case_of marks 30
t "$between: all of these" case_of all 30
order quit >/dev/null
watch_end
t "client: the device goes away" link_del $DEV
cp "$pcap" "${OXE_OUT:-$TMP}/" 2>/dev/null

kind_of() { if [ "$1" = oxe ]; then echo --reacts; else echo --rewritten; fi; }
t "the judge of the capture finds nothing" judged "$pcap" \
	"$(kind_of "$LINK_TYPE")" "$OXE_ADDR" "$(kind_of "$OXE_PEER_TYPE")" "$OXE_PEER_ADDR" \
	--needs capable --needs marked --needs CNPs
t "tshark parses each CNP" cnps_parsed "$pcap"
finish
