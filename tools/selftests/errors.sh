#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: work that must fail does so with the right status, and the rest is flushed. Completion
# statuses, flushing, retries, overflow of a CQ (py/errors.py, py/ended.py); elements of lists that
# no byte reaches (py/unused.py); requests of a wrong size (py/sizes.py); datagrams that must be
# dropped (py/lost_datagrams.py); a peer without a route (py/unreachable.py); states and attributes,
# limits, memory that cannot be registered (py/misuse.py). This machine's kernel does not clear
# memory that it allocates, but fills freed memory: an answer must not show that.
# vm: append=init_on_alloc=0+slub_debug=P
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py errors
relay_py ended
relay_py unused
relay_py sizes
relay_py lost_datagrams
export NS_A NS_B VETH_A
relay_py unreachable
relay_py misuse
t "the kernel log explains a path MTU that is too large" eval \
	"kernel_log | grep -q 'a path MTU of 2048 is refused, as .* (MTU 1500) has room for 1024'"
finish
