#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared receive queues (py/srq.py), on a wire and on one device.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py srq
finish
