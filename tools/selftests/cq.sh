#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Completion queues that are resized, for traffic on a wire (py/cq.py), and that are armed while they
# hold completions (py/arming.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py cq
relay_py arming
finish
