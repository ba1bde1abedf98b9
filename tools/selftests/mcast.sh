#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: datagrams to a group reach its queue pairs, between two hosts and on one device. Also what
# must be refused, and the netdev's own list of groups (py/mcast.py, mckey). rdma_cm joins groups of
# IPv4 alone for RoCEv2 (ENOTSUPP for IPv6).
. "$(dirname "$0")/lib.sh"
export NS_A NS_B VETH_A

# told GROUP ADDRESS-A ADDRESS-B: a mckey on host A gets what one on host B sends.
told() {
	in_a timeout $((LIMIT * SLOW)) mckey -m "$1" -b "$2" -C 5 >"$TMP/server" 2>&1 9>&- &
	local pid=$! status=0
	poll 60 grep -q 'joined' "$TMP/server"
	in_b timeout $((LIMIT * SLOW)) mckey -m "$1" -b "$3" -C 5 -s || status=$?
	wait $pid || status=$?
	cat "$TMP/server"
	return $status
}

export CGROUP=/tmp/oxe-cgroup/one
mkdir -p ${CGROUP%/*}
mount -t cgroup2 none ${CGROUP%/*} && echo +memory >${CGROUP%/*}/cgroup.subtree_control &&
	mkdir $CGROUP || CGROUP=
hosts_up 1500
relay_py mcast
t "mckey, IPv4" told 239.7.7.7 $IP4_A $IP4_B
export DEV_B=$DEV_A GID4_B=$GID4_A GID6_B=$GID6_A
relay_py mcast
finish
