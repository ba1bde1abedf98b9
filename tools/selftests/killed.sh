#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1 time=1800
#
# process: a process that is killed under traffic ends in less than a second. One after another;
# nothing of them is left (py/killed.py). kill.sh does so with perftest and rping, on two CPUs.
# KILLS=N kills so many.
. "$(dirname "$0")/lib.sh"
hosts_up 4200
export LIMIT_PY=$((600 + 10 * ${KILLS:-60}))
relay_py killed
works() { perf ib_send_bw 1 -e -s 65536 -n 20; }
t "the next pair works" works
finish
