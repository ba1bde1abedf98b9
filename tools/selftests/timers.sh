#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: timers only queue work, and a process is charged for the datagrams that it sends. As the
# kernel's trace events tell (py/timers.py); queue pairs in the error state share one timer, and
# some are destroyed as their timers expire. A process that is limited to 1 % of a processor gets no
# more done than that allows (py/charge.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py timers
relay_py charge
finish
