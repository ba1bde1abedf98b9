#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wire: each counter of dropped packets is made to count, and the trace event of each drop names its
# counter and queue pair: as often as the counters say, whatever else is dropped meanwhile. The few
# counters that this does not make count are listed, with the reason (py/drops.py).
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe counts by other names"
export NS_A NS_B VETH_A TRACING=/sys/kernel/tracing
[ -e $TRACING/instances ] || mount -t tracefs tracing $TRACING 2>/dev/null
[ -e $TRACING/instances ] || skip_all "the kernel has no tracefs"
# Datagrams longer than any path MTU fit into a packet.
hosts_up 9000
relay_py drops
finish
