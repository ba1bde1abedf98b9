#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Completion queues that are resized (py/cq.py), for traffic on a wire.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py cq
finish
