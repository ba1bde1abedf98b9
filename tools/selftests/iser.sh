#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 time=900
#
# storage: iSCSI over RDMA (iSER) works on one device, with data verified. LIO's target and the
# initiator of open-iscsi, in one kernel; storage-wire.sh has two machines.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/storage.sh"
need_programs fio iscsid iscsiadm
need_modules "brd rd_nr=1 rd_size=65536" target_core_iblock iscsi_target_mod ib_isert ib_iser sd_mod

t "a device in this namespace" one_device
t "a target listens" iser_target_up $IP4_A
t "the initiator's daemon runs" iser_begins
t "the initiator logs in" iser_login $IP4_A
t "fio, 4 KiB at random" small_verified "$(scsi_disk)"
t "fio, 1 MiB in a row" large_verified "$(scsi_disk)"
head -c 8M /dev/urandom >"$TMP/data"
written() { dd if="$TMP/data" of="$(scsi_disk)" bs=256k oflag=direct status=none; }
still() { cmp -n 8388608 "$TMP/data" "$(scsi_disk)"; }
t "data to be found again" written
t "the initiator logs out" iser_logout $IP4_A
t "the data is on the target's disk" cmp -n 8388608 "$TMP/data" /dev/ram0
t "the initiator logs in again" iser_login $IP4_A
t "the data is still there" still

t "the link goes down and up under load, which goes on" iser_goes_on "$(scsi_disk)" flap $VETH_A
portal_again() { echo 0 >$ISER/enable && echo 1 >$ISER/enable; }
t "the target stops and returns under load, which goes on" iser_goes_on "$(scsi_disk)" portal_again
# The target of LIO does not listen again by itself when its device returns.
device_returns() {
	link_del $DEV_A && device_again && iser_portal $IP4_A 0 && iser_portal $IP4_A 1
}
t "the device goes and returns under load, which goes on" iser_goes_on "$(scsi_disk)" device_returns
t "data after all that" small_verified "$(scsi_disk)"
removed() {
	load_begins "$(scsi_disk)" && iser_target_down $IP4_A
	iser_logout $IP4_A
	load_failed && poll 60 scsi_gone
}
t "the target is removed under load" removed
t "a target listens again" iser_target_up $IP4_A
t "the initiator logs in to it" iser_login $IP4_A
t "data by that session" small_verified "$(scsi_disk)"
t "the initiator logs out of it" iser_logout $IP4_A
t "the target ends" iser_target_down $IP4_A
t "the device is as it was" no_one_device
pkill -x iscsid
finish
