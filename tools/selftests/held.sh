#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Page faults that never return (py/held.py), as a file system in user space can make them: such
# that a signal ends, and such that none does.
. "$(dirname "$0")/lib.sh"
[ -c /dev/fuse ] || mknod /dev/fuse c 10 229
grep -q fuse /proc/filesystems || modprobe fuse
for kind in killable stuck; do
	hosts_up 1500
	relay_py held $kind
	net_down
done
module_load
finish
