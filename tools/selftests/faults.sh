#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: each allocation and user copy of a verb may fail, and nothing is leaked. At every site of
# each create, register, modify and resize of a process (py/faults.py) and of a consumer in the
# kernel (py/kernel_faults.py), one after another until the call succeeds, with the right errno. By
# hand, names of cases restrict it to these.
# vm: only=debug time=900
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/ktest.sh"
faults_ready
need_ktest
hosts_up 1500
relay_py faults "$@"
t "the kernel's consumer" ktest_load
relay_py kernel_faults "$@"
t "the kernel's consumer goes" ktest_unload
finish
