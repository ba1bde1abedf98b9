#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: det=1 time=1800
#
# The cost of ending a process that has very many objects (py/exit.py): in proportion at most, as it
# cannot be killed meanwhile.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py exit
finish
