#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1
#
# process: large copies for a stopped process are done by a worker and delay no other traffic. 64
# GiB of WRITEs are queued on one device; the scheduler preempts the worker, softirqs copy nothing,
# and of ping's round trips the 99th percentile is at most twice that of an idle machine
# (py/bulk.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py bulk
finish
