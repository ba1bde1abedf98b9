#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What one user may take of a device, and the limits of the rdma cgroup (py/quota.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py quota
finish
