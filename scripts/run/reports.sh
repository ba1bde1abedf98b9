# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # for those who source this
#
# What a sound kernel never writes into its log, for the hosts of virtual machines and for the tests
# in them.

# Reports that a sound kernel never makes (ref_tracker's own lack of memory, where faults are
# injected, is none of them). No test provokes one of these on purpose.
OXE_REPORTS='WARNING:|BUG:|Oops|Call Trace|KASAN|UBSAN|KCSAN|refcount_t:|suspicious RCU|'
OXE_REPORTS+='possible (circular|recursive) locking|inconsistent lock state|'
OXE_REPORTS+='unregister_netdevice: waiting|waiting for .* to become free|'
OXE_REPORTS+='blocked for more than|rcu: INFO:|soft lockup|hard LOCKUP|'
OXE_REPORTS+='sleeping function called|scheduling while atomic|ODEBUG|ref_tracker: [^m]|'
OXE_REPORTS+='restrack: .*leak|general protection|Unable to handle|panicked at|'
OXE_REPORTS+='list_(add|del) corruption|Kernel panic'
