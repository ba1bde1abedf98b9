#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: page faults that never return hold up neither other processes nor rmmod. A file system in
# user space (FUSE) whose daemon never answers, and processes that ask for 1,100 of its pages: other
# processes' pages still come, a process's memory is freed when it is killed. Twice: where a signal
# ends the waits, and where none does (py/held.py).
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
