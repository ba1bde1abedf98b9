#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# On-demand paging (py/odp.py, py/odp_regions.py): on a wire, with packets of 1500 bytes and with
# jumbo frames, and on one device, without packets.
. "$(dirname "$0")/lib.sh"
for mtu in 1500 9000; do
	hosts_up $mtu
	relay_py odp
	relay_py odp_regions
	hosts_down
done
hosts_up 1500
export DEV_B=$DEV_A GID4_B=$GID4_A GID6_B=$GID6_A
relay_py odp
relay_py odp_regions
finish
