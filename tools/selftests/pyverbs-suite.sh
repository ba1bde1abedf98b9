#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, as its Debian package installs them, each in a process of its own
# (py/suite.py) on one device. Those in pyverbs-allowed.txt may fail, each for the reason given
# there.
# vm: time=2400
. "$(dirname "$0")/lib.sh"
source=/usr/share/doc/rdma-core/tests
[ -d $source ] || skip_all "rdma-core's tests are not installed"

# The suite takes one device whose netdev is in its own namespace: so this one is not in a second
# host.
net() {
	ip link add $VETH_A type veth peer name $VETH_B && ip addr add $IP4_A/24 dev $VETH_A &&
		ip -6 addr add $IP6_A/64 dev $VETH_A nodad && ip link set $VETH_A up &&
		ip link set $VETH_B up && need_module && link_add $DEV_A $VETH_A &&
		wait_gid $DEV_A $IP4_A
}
t "a device in this namespace" net

# The package stores most of them compressed.
mkdir -p "$TMP/tests"
cp $source/* "$TMP/tests/"
gunzip -f "$TMP"/tests/*.gz
suite() {
	timeout $((2200 * SLOW)) python3 -u "$PY/suite.py" "$TMP/tests" $DEV_A \
		"$(gid_index $DEV_A $IP4_A)" "$HERE/pyverbs-allowed.txt" ${ONLY:-} \
		>"$TMP/relay" 2>"$TMP/err"
}
suite
status=$?
relay <"$TMP/relay"
ended() {
	cat "$TMP/err"
	[ $status = 0 ] && [ "$(grep -cE '^(ok|not ok|skip) ' "$TMP/relay")" -gt 0 ]
}
t "the suite ran to its end" ended
still() { ibv_devinfo -d $DEV_A && link_del $DEV_A; }
t "the device is as it was" still
ip link del $VETH_A
finish
