#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1
#
# Large copies for a process that is stopped: by a worker that the scheduler preempts, not in
# softirqs, so that other traffic does not wait for them (py/bulk.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py bulk
finish
