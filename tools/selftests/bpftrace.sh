#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: the scripts of tools/bpftrace show what they say: how long requests take, packets that
# are dropped, what is sent again and why, the windows. Each runs beside traffic that makes it
# happen, on a wire; of a queue pair without traffic it shows nothing. py/bpftrace.py.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no trace events"
command -v bpftrace >/dev/null || skip_all "bpftrace is missing: guests of trixie alone have it"
[ -e /sys/kernel/btf/vmlinux ] || skip_all "the kernel has no BTF"
export NS_A NS_B VETH_A VETH_B TRACING=/sys/kernel/tracing SCRIPTS=$HERE/../bpftrace
[ -e $TRACING/events/oxe ] || mount -t tracefs tracing $TRACING 2>/dev/null
[ -e $TRACING/events/oxe ] || skip_all "the kernel has no tracefs"
modprobe -q sch_netem
hosts_up 1500
in_a ethtool -K $VETH_A tx-udp-segmentation off >/dev/null 2>&1
relay_py bpftrace
finish
