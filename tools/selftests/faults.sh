#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Allocation and user-copy failures at every site of each create, register, modify and resize
# (py/faults.py), one after another until the call succeeds: the right errno, nothing leaked. For
# the debug kernel. By hand, names of cases restrict it to these.
# vm: only=debug
. "$(dirname "$0")/lib.sh"
faults_ready
hosts_up 1500
relay_py faults "$@"
finish
