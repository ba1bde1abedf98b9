#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# UCX, by which MPI and others communicate: its transport over UD, between two hosts and on one
# device, over IPv4 and IPv6. It finds the IP header before a datagram by the packet type in the
# completion's sl, as mlx5 sets it.
. "$(dirname "$0")/lib.sh"
command -v ucx_perftest >/dev/null || skip_all "ucx_perftest is missing"
[ "$LINK_TYPE" = oxe ] || skip_all "only oxe's completions have a packet type"
hosts_up 4200
# It looks at much of the machine before it begins.
export LIMIT=120

# ucx GID-A DEVICE-B GID-B TEST OPTION...: ucx_perftest between these. Without a terminal Debian's
# takes itself for a part of an MPI program.
ucx() {
	local a=$1 dev=$2 b=$3 test=$4 in_namespace='' program server client
	shift 4
	PORT=$((PORT + 1))
	[ "$dev" = $DEV_B ] || in_namespace="nsenter --net=/run/netns/$NS_A"
	program="ucx_perftest -p $PORT -t $test $*"
	export UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=ud_verbs
	server="UCX_NET_DEVICES=$DEV_A:1 UCX_IB_GID_INDEX=$a script -qec '$program -d $DEV_A:1' /dev/null"
	client="$in_namespace env UCX_NET_DEVICES=$dev:1 UCX_IB_GID_INDEX=$b"
	client="$client script -qec '$program -d $dev:1 $IP4_A' /dev/null"
	pair "tcp $PORT" "$server" "$client" &&
		grep -qE "^Final: +$COUNT_OF " "$TMP/client"
}
both_versions() { # NAME TEST OPTION...
	t "$1 over IPv4" ucx "$GID4_A" $DEV_B "$GID4_B" "${@:2}"
	t "$1 over IPv6" ucx "$GID6_A" $DEV_B "$GID6_B" "${@:2}"
}
COUNT_OF=100
both_versions "UCX's ud_verbs, latency" am_lat -x ud_verbs -n $COUNT_OF -s 64
both_versions "UCX's ud_verbs, bandwidth of 4,000 bytes" \
	am_bw -x ud_verbs -D zcopy -n $COUNT_OF -s 4000
# Messages with tags, in fragments; lost fragments are sent again.
both_versions "UCX's tagged messages of 100,000 bytes by datagrams" tag_lat -n $COUNT_OF -s 100000
t "UCX's ud_verbs on one device" \
	ucx "$GID4_A" $DEV_A "$GID4_A" am_lat -x ud_verbs -n $COUNT_OF -s 64
finish
