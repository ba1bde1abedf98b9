#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: time=3000
#
# process: a user gets of a device what it says, and others get theirs meanwhile. Multicast groups,
# QPs of one group, and the limits of the rdma cgroup, whose counts go back to zero (py/quota.py);
# as many objects and as long queues as the device says (py/most.py; of objects all in the nightly
# run alone).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py quota
# The full number of each takes hours on a kernel with its debugging on.
[ $SLOW = 1 ] || export SHORT=1
export LIMIT_PY=2400
relay_py most
finish
