#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: rdma resource show has true details of objects, with -dd, and shows them to CAP_NET_ADMIN
# alone; on a wire and on one device. py/details.py.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py details
export DEV_B=$DEV_A GID4_B=$GID4_A GID6_B=$GID6_A
relay_py details
finish
