#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Hostile packets on the wire, with valid and invalid ICRCs: truncated at every length, all 256
# opcodes, pads, versions, keys, noise (py/wire.py); what passes for the peer's, responses without a
# request among it (py/forged.py). They are dropped, and counted by cause; the connection beside
# them works on. And GSO super-packets from a sender that may have lied (py/gso.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
MAC_A=$(ip -n $NS_A -br link show $VETH_A | awk '{ print $3 }')
export NS_A NS_B VETH_B MAC_A
relay_py wire
relay_py forged
relay_py gso
finish
