#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1
#
# program: libfabric's endpoints of its provider verbs work, with data compared. MPI and storage
# programs communicate by libfabric: connected (msg) and unconnected (dgram) endpoints. fi_pingpong
# compares the data of each message (-c); between two hosts and on one device, over IPv4 and IPv6.
# Reliable datagrams (rdm, by ofi_rxm) are left out: now and then fi_pingpong crashes when it ends
# (see users/mpi.rst).
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/mpi.sh"
command -v fi_pingpong >/dev/null || skip_all "fi_pingpong is missing"
hosts_up
export FI_LOG_LEVEL=warn
SIZES="1 1023 65537 1048576"

# offers ENDPOINT PROVIDER: libfabric finds such endpoints on host A's device.
offers() {
	in_a fi_info -p "$2" -t "$1" -d "$(domain "$1" $DEV_A)" >"$TMP/info" 2>&1
	cat "$TMP/info"
	grep -q "provider: .*verbs" "$TMP/info"
}
domain() { # ENDPOINT DEVICE
	case $1 in FI_EP_DGRAM) echo "$2-dgram" ;; *) echo "$2" ;; esac
}

# ping ENDPOINT PROVIDER VERSION HOST SIZES: fi_pingpong of these sizes; HOST is where the client runs.
ping() {
	local type=$1 provider=$2 version=$3 host=$4 sizes=$5 size address=$IP4_A options end='' dev=$DEV_B
	options="-c -I 30 -p '$provider' -e $type"
	[ "$version" = 4 ] || { address=$IP6_A options="$options -6"; }
	[ "$host" = b ] || { end="nsenter --net=/run/netns/$NS_A" dev=$DEV_A; }
	for size in $sizes; do
		PORT=$((PORT + 2))
		pair "tcp $PORT" \
			"fi_pingpong $options -S $size -d $(domain "FI_EP_${type^^}" $DEV_A) -B $PORT" \
			"$end fi_pingpong $options -S $size -d $(domain "FI_EP_${type^^}" "$dev") -P $PORT $address" ||
			return 1
		pinged || return 1
	done
}
cases() { # NAME ENDPOINT PROVIDER SIZES
	t "$1: found" offers "FI_EP_${2^^}" "$3"
	t "$1 between hosts, data compared" ping "$2" "$3" 4 b "$4"
	t "$1 between hosts, IPv6, data compared" ping "$2" "$3" 6 b "$4"
	t "$1 on one device, data compared" ping "$2" "$3" 4 a "$4"
}
cases "connected endpoints (verbs)" msg verbs "$SIZES"
cases "datagrams (verbs)" dgram verbs "1 1000"
finish
