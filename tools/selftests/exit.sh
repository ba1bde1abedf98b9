#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: det=1 time=1800
#
# process: the end of a process costs time in proportion to its objects at most. A process with
# 50,000 completion queues is killed: it cannot be killed meanwhile (py/exit.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py exit
finish
