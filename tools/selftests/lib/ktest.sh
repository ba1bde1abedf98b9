# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The consumer in the kernel (kernel/, the module oxe_ktest), for the scripts that use it. Sourced
# after lib.sh.

KTEST=$(dirname "$OXE_MODULE")/oxe_ktest.ko
KTEST_FILES=/sys/kernel/debug/oxe_ktest

need_ktest() { [ -e "$KTEST" ] || skip_all "there is no $KTEST"; }
# ktest_load: for the devices of links_up. GID indices are parameters of the module.
ktest_load() {
	insmod "$KTEST" dev_a=$DEV_A dev_b=$DEV_B gid_a="$GID4_A" gid_b="$GID4_B" slow=$SLOW
}
# ktest_run COMMAND: "GROUP loop" or "GROUP wire", see kernel/main.c.
ktest_run() { (echo "$1" >$KTEST_FILES/run); }
ktest_unload() { [ ! -d /sys/module/oxe_ktest ] || rmmod oxe_ktest; }
gone() { [ ! -d "/sys/class/infiniband/$1" ]; }
