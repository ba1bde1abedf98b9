#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: rdma-core's own tests pass, but for those that are listed. As its Debian package installs
# them, each in a process of its own (py/suite.py) on one device: with MTU 1500 over IPv4, and with
# MTU 9000 over IPv6 (the latter not with SHORT=1). Those in pyverbs-allowed.txt may fail, each for
# the reason given there.
# vm: time=2400
. "$(dirname "$0")/lib.sh"
source=/usr/share/doc/rdma-core/tests
[ -d $source ] || skip_all "rdma-core's tests are not installed"

# The suite takes one device whose netdev is in its own namespace: so this one is not in a second
# host.
net() { # MTU
	ip link add $VETH_A mtu "$1" type veth peer name $VETH_B mtu "$1" &&
		ip addr add $IP4_A/24 dev $VETH_A && ip -6 addr add $IP6_A/64 dev $VETH_A nodad &&
		ip link set $VETH_A up && ip link set $VETH_B up && need_module &&
		link_add $DEV_A $VETH_A && wait_gid $DEV_A $IP4_A && wait_gid $DEV_A $IP6_A
}

# The package stores most of them compressed.
mkdir -p "$TMP/tests"
cp $source/* "$TMP/tests/"
gunzip -f "$TMP"/tests/*.gz
# Some ask for huge pages.
echo 16 >/proc/sys/vm/nr_hugepages
suite() { # ADDRESS
	timeout $((2200 * SLOW)) python3 -u "$PY/suite.py" "$TMP/tests" $DEV_A \
		"$(gid_index $DEV_A "$1")" "$HERE/pyverbs-allowed.txt" ${ONLY:-} \
		>"$TMP/relay" 2>"$TMP/err"
}
ended() { # STATUS
	cat "$TMP/err"
	[ "$1" = 0 ] && [ "$(grep -cE '^(ok|not ok|skip) ' "$TMP/relay")" -gt 0 ]
}
still() { ibv_devinfo -d $DEV_A && link_del $DEV_A && ip link del $VETH_A; }

# The second run has the names of the first one with its kind in front.
kinds=("1500 $IP4_A" "9000 $IP6_A IPv6")
[ -z "${SHORT:-}" ] || kinds=("${kinds[0]}")
for kind in "${kinds[@]}"; do
	read -r mtu address name <<<"$kind"
	t "a device in this namespace, MTU $mtu" net "$mtu"
	status=0
	suite "$address" || status=$?
	sed -E "s/^(ok|not ok|skip) /&${name:+$name, }/" "$TMP/relay" >"$TMP/named"
	relay <"$TMP/named"
	t "the suite ran to its end, MTU $mtu" ended $status
	t "the device is as it was" still
done
finish
