#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: a completion queue may be resized and armed while completions come. Resized for traffic on
# a wire (py/cq.py), armed while it holds completions (py/arming.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py cq
relay_py arming
finish
