#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: trace events say what a connection does and why, on a wire and on one device. Each is made
# to happen, drops by the name of the counter that they move; nobody but root reads them, and they
# end with their reader. py/trace.py.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no trace events"
export NS_A VETH_A TRACING=/sys/kernel/tracing
[ -e $TRACING/instances ] || mount -t tracefs tracing $TRACING 2>/dev/null
[ -e $TRACING/instances ] || skip_all "the kernel has no tracefs"
modprobe -q sch_netem
hosts_up 1500
relay_py trace
export DEV_B=$DEV_A GID4_B=$GID4_A GID6_B=$GID6_A
relay_py trace
finish
