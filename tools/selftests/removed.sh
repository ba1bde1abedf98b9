#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1 time=1200
#
# device: a device under traffic is removed in less than a second. Links, netdevs, network
# namespaces and the module, one after another, under a consumer in the kernel and a process that
# only polls and posts: each request completes once, or its post fails, and nothing is left.
# remove.sh does so on two CPUs, with perftest too. ROUNDS=N makes so many rounds.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/rounds.sh"
hosts_up 4200
ROUNDS=${ROUNDS:-12}
LIMIT_US=1000000

t "links, netdevs, namespaces and the module removed under traffic, $ROUNDS times" rounds "$ROUNDS"
rounds_took
soon() {
	local kind status=0
	if [ "${OXE_KERNEL:-stock}" != stock ] || [ "$(nproc)" != 1 ]; then
		echo "the clock counts instructions on the stock kernel in the deterministic machine alone"
		return 4
	fi
	for kind in "${!LONGEST[@]}"; do
		[ "${LONGEST[$kind]}" -gt 0 ] && [ "${LONGEST[$kind]}" -lt $LIMIT_US ] || {
			echo "$kind: ${LONGEST[$kind]} us"
			status=1
		}
	done
	return $status
}
t "each of them within a second" soon
works() { perf ib_send_bw 1 -e -s 65536 -n 20; }
t "the next pair works" works
finish
