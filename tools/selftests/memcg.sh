#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 time=1800
#
# process: the memory cgroup of a process pays for its objects and bounds them. A process in a
# cgroup of 64 MB makes protection domains, address handles, regions, completion queues and queue
# pairs until it may have no more: it gets ENOMEM, other processes go on, and all memory comes back
# when it ends (py/memcg.py).
. "$(dirname "$0")/lib.sh"
export CGROUP=/tmp/oxe-cgroup
mkdir -p $CGROUP
mount -t cgroup2 none $CGROUP || skip_all "no cgroups"
grep -qw memory $CGROUP/cgroup.controllers || skip_all "a kernel without memory cgroups"
echo +memory >$CGROUP/cgroup.subtree_control
hosts_up 1500
# Python then gives memory back to the C library, which can be told to keep it (py/memcg.py).
export PYTHONMALLOC=malloc LIMIT_PY=1500
relay_py memcg
finish
