#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: time=900 known=nvmet_config_sem
#
# NVMe over fabrics, a user in the kernel: fast registration, local and remote invalidation, READs
# and WRITEs of storage, with every byte compared. Target and host are in one kernel, and so on one
# device: the target listens in the first network namespace alone. The target of the kernel takes
# two of its locks in both orders (nvmet_config_sem), as lockdep says.
. "$(dirname "$0")/lib.sh"
for module in "brd rd_nr=1 rd_size=65536" nvmet-rdma nvme-rdma; do
	# shellcheck disable=SC2086 # a module and its parameters
	modprobe $module 2>/dev/null || skip_all "this kernel has no module ${module%% *}"
done

net() {
	ip link add $VETH_A type veth peer name $VETH_B && ip addr add $IP4_A/24 dev $VETH_A &&
		ip link set $VETH_A up && ip link set $VETH_B up && need_module &&
		link_add $DEV_A $VETH_A && wait_gid $DEV_A $IP4_A
}
t "a device in this namespace" net

CONFIG=/sys/kernel/config/nvmet NQN=oxe-test
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
subsystem=$CONFIG/subsystems/$NQN port=$CONFIG/ports/1
target_up() {
	mkdir $subsystem && echo 1 >$subsystem/attr_allow_any_host &&
		mkdir $subsystem/namespaces/1 &&
		echo -n /dev/ram0 >$subsystem/namespaces/1/device_path &&
		echo 1 >$subsystem/namespaces/1/enable && mkdir $port &&
		echo rdma >$port/addr_trtype && echo ipv4 >$port/addr_adrfam &&
		echo $IP4_A >$port/addr_traddr && echo 4420 >$port/addr_trsvcid &&
		ln -s $subsystem $port/subsystems/$NQN
}
target_down() {
	rm -f $port/subsystems/$NQN
	rmdir $port
	echo 0 >$subsystem/namespaces/1/enable
	rmdir $subsystem/namespaces/1 $subsystem
}
# disk: the host's block device, once it is there.
disk() { ls /dev/nvme*n1 2>/dev/null | head -n 1; }
has_disk() { [ -b "$(disk)" ]; }
no_disk() { ! has_disk; }
# connect [OPTION...]: what nvme-cli would write.
connect() {
	local IFS=,
	echo "transport=rdma,traddr=$IP4_A,trsvcid=4420,nqn=$NQN,nr_io_queues=2${*:+,$*}" \
		>"$TMP/how" &&
		timeout $((60 * SLOW)) sh -c "cat $TMP/how >/dev/nvme-fabrics" && poll 60 has_disk
}
disconnect() {
	local control
	for control in /sys/class/nvme/nvme*/delete_controller; do
		echo 1 >"$control" || return 1
	done
	poll 60 no_disk
}
t "a target listens" target_up
t "a host connects" connect

# copied BLOCK-SIZE OFFSET-MIB MIB: random bytes go to the disk and come back. Direct I/O: a request
# has a block. Several at once do not overlap.
copied() {
	local size=$1 at=$2 mib=$3 dev name
	dev=$(disk)
	name=$TMP/data.$at
	head -c ${mib}M /dev/urandom >"$name"
	timeout $((120 * SLOW)) dd if="$name" of="$dev" bs="$size" oflag=direct,seek_bytes \
		seek=$((at << 20)) conv=notrunc status=none &&
		timeout $((120 * SLOW)) dd if="$dev" bs="$size" iflag=direct,skip_bytes,count_bytes \
			skip=$((at << 20)) count=${mib}M status=none | cmp - "$name"
	local status=$?
	[ -n "${KEEP:-}" ] || rm -f "$name"
	return $status
}
for size in 512 4096 65536 1M; do
	mib=8
	[ $size != 512 ] || mib=1
	t "data in blocks of $size bytes" copied $size 0 $mib
done
# at_once COUNT: so many processes.
at_once() {
	local i pids=() status=0
	for ((i = 0; i < $1; i++)); do
		copied $((4096 << (i % 6))) $((i * 4)) 4 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || status=1; done
	return $status
}
t "data of eight processes at once" at_once 8

# still: what KEEP left is on the disk.
still() {
	dd if="$(disk)" bs=64k count=16 iflag=direct status=none | cmp - "$TMP/data.0"
}
KEEP=1 t "data to be found again" copied 65536 0 1
t "the host disconnects" disconnect
t "it connects again" connect
t "the data is still there" still
t "the host disconnects again" disconnect

t "a connection with queues of its own for writes" connect nr_write_queues=1
t "data by that" copied 16384 32 4

# removed_under_load: the target's port goes away while blocks are written.
removed_under_load() {
	local dev writer
	dev=$(disk)
	while dd if=/dev/zero of="$dev" bs=128k count=64 oflag=direct status=none; do :; done \
		>/dev/null 2>&1 &
	writer=$!
	sleep 1
	target_down
	disconnect
	wait $writer
	no_disk
}
t "the target is removed under load" removed_under_load
t "a target listens again" target_up
t "a host connects to it" connect
t "data by that connection" copied 4096 0 2
t "it disconnects" disconnect
t "the target ends" target_down
still_there() { ibv_devinfo -d $DEV_A && link_del $DEV_A; }
t "the device is as it was" still_there
ip link del $VETH_A
modprobe -r nvme-rdma nvmet-rdma brd
finish
