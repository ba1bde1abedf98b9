#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: every test of ucx_perftest runs over rc_verbs and ud_verbs. MPI and others communicate by
# UCX: the tests of its transports (UCT) and of its protocols (UCP), between two hosts; some over
# IPv6 and on one device. This version of ucx_perftest does not compare data (mpi.sh does); a test
# shows that each of its messages came.
#
# ud_verbs finds the IP header before a datagram by the packet type in the completion's sl, as mlx5
# sets it. rc_verbs is connected by it.
# vm: nightly=1
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/mpi.sh"
command -v ucx_perftest >/dev/null || skip_all "ucx_perftest is missing"
[ "$LINK_TYPE" = oxe ] || skip_all "only oxe's completions have a packet type"
hosts_up 4200
# It looks at much of the machine before it begins.
export LIMIT=120
COUNT_OF=100

# run_batch TLS GID-A DEVICE-B GID-B: the tests of $TMP/batch between these. Without -P 0
# Debian's ucx_perftest takes itself for a part of an MPI program.
run_batch() {
	local tls=$1 a=$2 dev=$3 b=$4 in_namespace='' program server client
	PORT=$((PORT + 1))
	[ "$dev" = $DEV_B ] || in_namespace="nsenter --net=/run/netns/$NS_A"
	program="ucx_perftest -P 0 -p $PORT -b $TMP/batch -f -v -n $COUNT_OF -w 5"
	export UCX_TLS=$tls
	server="UCX_NET_DEVICES=$DEV_A:1 UCX_IB_GID_INDEX=$a $program -d $DEV_A:1"
	client="$in_namespace env UCX_NET_DEVICES=$dev:1 UCX_IB_GID_INDEX=$b $program -d $dev:1 $IP4_A"
	pair "tcp $PORT" "$server" "$client" && ! grep 'UCX  *ERROR' "$TMP/server" "$TMP/client"
}
# batch WHERE TLS TEST...: a case for each of these tests, and one for the run. WHERE is 4, 6 or loop
# (host A's device). The tests of a transport (UCT) are of the one that is first in TLS.
batch() {
	local where=$1 tls=$2 a=$GID4_A dev=$DEV_B b=$GID4_B
	shift 2
	case $where in
	6) a=$GID6_A b=$GID6_B where="over IPv6" ;;
	loop) dev=$DEV_A b=$GID4_A where="on one device" ;;
	*) where="between hosts" ;;
	esac
	batch_of "${tls%%,*}" "$@" >"$TMP/batch"
	t "${tls%%,*} $where: both ends end well" run_batch "$tls" "$a" "$dev" "$b"
	batch_cases "${tls%%,*} $where" $COUNT_OF "$@"
}
# not_offered TLS ABILITY TEST...: tests of an operation that UCX says its transport does not have.
ucx_info -d >"$TMP/transports" 2>&1
not_offered() {
	local tls=$1 ability=$2 test
	shift 2
	for test in "$@"; do
		if sed -n "/Transport: $tls/,/^# *$/p" "$TMP/transports" | grep -q "$ability"; then
			not_ok "$tls: $test was left out, and $tls has $ability"
		else
			skip "$tls: $test" "UCX's $tls has no $ability"
		fi
	done
}

MESSAGES=(am_lat:short:8 am_lat:bcopy:2000 am_bw:short:8 am_bw:bcopy:2000 am_bw:zcopy:4000)

batch 4 rc_verbs,ud_verbs "${MESSAGES[@]}" put_lat:short:8 put_bw:short:8 put_bw:bcopy:8000 \
	put_bw:zcopy:1000000 get:bcopy:8000 get:zcopy:1000000 get_bw:zcopy:100000 \
	add_lat:short:8 add_mr:short:8 fadd:short:8 cswap:short:8
not_offered rc_verbs atomic_swap swap
batch 4 ud_verbs "${MESSAGES[@]}"
not_offered ud_verbs put_ put_lat put_bw
not_offered ud_verbs get_ get get_bw
not_offered ud_verbs atomic_ add_lat add_mr fadd swap cswap
# Where a transport has no such operation the protocols make it of messages.
for tls in rc_verbs,ud_verbs:aux ud_verbs; do batch 4 $tls "${PROTOCOLS[@]}"; done
for where in 6 loop; do
	batch $where rc_verbs,ud_verbs am_lat:short:8 put_bw:zcopy:100000 get:zcopy:100000 fadd:short:8
	batch $where ud_verbs am_lat:short:8 am_bw:zcopy:4000
	for tls in rc_verbs,ud_verbs:aux ud_verbs; do batch $where $tls tag_lat:64 tag_bw:100000; done
done
finish
