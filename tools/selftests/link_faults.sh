#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: each allocation and user copy of link add may fail, and nothing is leaked. One after
# another until the call succeeds, with the right errno (py/link_faults.py); there are thousands.
# vm: only=debug time=3600 gids=16
. "$(dirname "$0")/lib.sh"
faults_ready
hosts_up 1500
export NETNS=oxt-f NETDEV=oxvf LIMIT_PY=1800
t "a netdev for link add" eval 'ip netns add $NETNS && ip -n $NETNS link set lo up &&' \
	'ip -n $NETNS link add $NETDEV type veth peer name oxvg &&' \
	'ip -n $NETNS link set $NETDEV up && ip -n $NETNS link set oxvg up'
relay_py link_faults
ip netns del $NETNS
finish
