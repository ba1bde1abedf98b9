#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: det=1 time=1800
#
# What it costs to end a process that has very many objects (py/exit.py): no more than in proportion, as nobody can kill it
# meanwhile.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py exit
finish
