#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: hostile packets are dropped and counted by cause, and the connection beside them works on.
# With valid and invalid ICRCs: truncated at every length, all 256 opcodes, pads, versions, keys,
# noise (py/wire.py); what passes for the peer's, responses without a request among it
# (py/forged.py). And GSO super-packets from a sender that may have lied, as a virtual machine may
# (py/gso.py), also about their kind; and packets to a netdev that has no device (py/tap.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
MAC_A=$(ip -n $NS_A -br link show $VETH_A | awk '{ print $3 }')
export NS_A NS_B VETH_B MAC_A
relay_py wire
relay_py forged
relay_py gso

# A tap of host A, as of a virtual machine, with a device.
export TAP=oxtap DEV_TAP=${LINK_TYPE}tap IP4_TAP=10.78.0.1 MAC_TAP=02:00:00:00:01:02
tap_up() {
	modprobe -q tun
	[ $LINK_TYPE = oxe ] || { echo "rdma_rxe counts by other names"; return 4; }
	ip -n $NS_A tuntap add dev $TAP mode tap vnet_hdr || { echo "there is no tap"; return 4; }
	ip -n $NS_A addr add $IP4_TAP/24 dev $TAP &&
		ip -n $NS_A link set $TAP address $MAC_TAP up &&
		link_add $DEV_TAP $TAP $NS_A
}
t "a device on a tap" tap_up
if [ -d /sys/class/infiniband/$DEV_TAP ]; then
	relay_py tap
	t "the tap goes with its device" ip -n $NS_A link del $TAP
fi
finish
