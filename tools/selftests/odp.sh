#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: with on-demand paging messages wait for pages that are gone, and no byte is wrong. Pages
# are taken away by madvise, fork, munmap and writeback (py/odp.py, py/odp_regions.py): on a wire,
# with packets of 1500 bytes and with jumbo frames, and on one device, without packets. Where a
# packet that is received has to find a page missing, the counter page_fault tells that one did.
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
