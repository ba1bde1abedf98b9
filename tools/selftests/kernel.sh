#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: time=900
#
# A consumer in the kernel (kernel/, the module oxe_ktest): verbs that no process can call. Each
# group of cases runs on one device, without packets, and between two devices on a wire.
. "$(dirname "$0")/lib.sh"
KTEST=${OXE_KTEST:-/oxe/oxe_ktest.ko}
FILES=/sys/kernel/debug/oxe_ktest
[ -e "$KTEST" ] || skip_all "there is no $KTEST"
hosts_up 1500

loaded() {
	insmod "$KTEST" dev_a=$DEV_A dev_b=$DEV_B gid_a="$GID4_A" gid_b="$GID4_B" slow=$SLOW
}
# group NAME WHERE: the cases of a group, with the module loaded for it alone.
group() {
	local status=0
	if ! loaded >"$TMP/log" 2>&1; then
		not_ok "$1 ($2): the test module" "$TMP/log"
		return
	fi
	(echo "$1 $2" >$FILES/run) 2>"$TMP/log" || status=$?
	relay <$FILES/results
	[ $status = 0 ] || not_ok "$1 ($2): status $status" "$TMP/log"
	t "$1 ($2): the test module goes" rmmod oxe_ktest
}
for group in ${GROUPS_RUN:-fastreg}; do
	group "$group" loop
	group "$group" wire
done
finish
