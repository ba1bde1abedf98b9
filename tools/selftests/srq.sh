#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: queue pairs take their receives from one queue, on a wire and on one device. py/srq.py.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py srq
finish
