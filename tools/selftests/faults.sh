#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Allocation and user-copy failures at every site of link add and of each create, register, modify and resize
# (py/faults.py), one after another until the call succeeds: the right errno, nothing leaked. The debug kernel's affair.
# vm: time=1400 gids=16
# By hand, names of cases restrict it to these.
. "$(dirname "$0")/lib.sh"
[ -e /proc/self/fail-nth ] || skip_all "the kernel has no fault injection (the debug kernel has)"
hosts_up 1500

# What may fail: every allocation that a caller could see fail, not only the atomic ones; pages of any order; user copies.
debug=/sys/kernel/debug
for file in failslab/ignore-gfp-wait fail_page_alloc/ignore-gfp-wait fail_page_alloc/min-order; do
	[ ! -e $debug/$file ] || echo 0 >$debug/$file
done
# Silent: a stack trace for each of thousands of injected faults helps nobody.
for file in $debug/fail*/verbose; do
	[ ! -e "$file" ] || echo 0 >"$file"
done
# A netdev of its own for the link that is added again and again.
t "a netdev for link add" eval 'ip -n $NS_A link add oxvf type veth peer name oxvg && ip -n $NS_A link set oxvf up && ip -n $NS_A link set oxvg up'
export NS_A
export LIMIT_PY=1200
relay_py faults "$@"
finish
