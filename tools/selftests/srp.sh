#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 time=600
#
# storage: SRP works on one device, with data verified. LIO's target and the kernel's initiator,
# connected by the RDMA connection manager, in one kernel.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/storage.sh"
need_programs fio
need_modules "brd rd_nr=1 rd_size=65536" target_core_iblock sd_mod ib_srpt ib_srp

t "a device in this namespace" one_device
GUID=$(srpt_guid)
NAME=$(srpt_port $DEV_A)
t "a target is there" srpt_up $DEV_A $IP4_A
t "the initiator logs in" srp_login $DEV_A "$GUID" $IP4_A
t "fio, 4 KiB at random" small_verified "$(scsi_disk)"
t "fio, 1 MiB in a row" large_verified "$(scsi_disk)"
head -c 8M /dev/urandom >"$TMP/data"
written() { dd if="$TMP/data" of="$(scsi_disk)" bs=256k oflag=direct status=none; }
t "data to be found again" written
t "the initiator logs out" srp_logout
t "the data is on the target's disk" cmp -n 8388608 "$TMP/data" /dev/ram0
t "the initiator logs in again" srp_login $DEV_A "$GUID" $IP4_A
t "the data is still there" cmp -n 8388608 "$TMP/data" "$(scsi_disk)"
# The end of the device ends the initiator's disk.
device_goes() {
	load_begins "$(scsi_disk)" && link_del $DEV_A && load_failed && poll 120 scsi_gone
}
t "the device goes under load" device_goes
# The target's port belongs to the device that is gone.
device_and_target() { device_again && srpt_down "$NAME" $IP4_A && srpt_up $DEV_A $IP4_A; }
t "the device returns" device_and_target
t "the initiator logs in to it" srp_login $DEV_A "$GUID" $IP4_A
t "data by that login" small_verified "$(scsi_disk)"
t "the initiator logs out of it" srp_logout
t "the target ends" srpt_down "$NAME" $IP4_A
t "the device is as it was" no_one_device
modprobe -r ib_srp ib_srpt
finish
