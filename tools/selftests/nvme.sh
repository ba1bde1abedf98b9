#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: time=900 known=nvmet_config_sem
#
# storage: NVMe over fabrics works on one device, with every byte compared. A user in the kernel:
# fast registration, local and remote invalidation, READs and WRITEs of storage. Target and host are
# in one kernel: the target listens in the first network namespace alone. The target of the kernel
# takes two of its locks in both orders (nvmet_config_sem), as lockdep says.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/storage.sh"
need_modules "brd rd_nr=1 rd_size=65536" nvmet-rdma nvme-rdma
t "a device in this namespace" one_device

# connect [OPTION...]: what nvme-cli would write.
connect() {
	local IFS=,
	echo "transport=rdma,traddr=$IP4_A,trsvcid=4420,nqn=$NQN,nr_io_queues=2${*:+,$*}" \
		>"$TMP/how" &&
		timeout $((60 * SLOW)) sh -c "cat $TMP/how >/dev/nvme-fabrics" && poll 60 nvme_ready
}
disconnect() {
	local control
	for control in /sys/class/nvme/nvme*/delete_controller; do
		echo 1 >"$control" || return 1
	done
	poll 60 nvme_gone
}
t "a target listens" nvmet_up $IP4_A
t "a host connects" connect

# copied BLOCK-SIZE OFFSET-MIB MIB: random bytes go to the disk and come back. Direct I/O: a request
# has a block. Several at once do not overlap.
copied() {
	local size=$1 at=$2 mib=$3 dev name
	dev=$(nvme_disk)
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
	dd if="$(nvme_disk)" bs=64k count=16 iflag=direct status=none | cmp - "$TMP/data.0"
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
	dev=$(nvme_disk)
	while dd if=/dev/zero of="$dev" bs=128k count=64 oflag=direct status=none; do :; done \
		>/dev/null 2>&1 &
	writer=$!
	sleep 1
	nvmet_down
	disconnect
	wait $writer
	nvme_gone
}
t "the target is removed under load" removed_under_load
t "a target listens again" nvmet_up $IP4_A
t "a host connects to it" connect
t "data by that connection" copied 4096 0 2
t "it disconnects" disconnect

if command -v fio >/dev/null && command -v nvme >/dev/null; then
	discovered() { nvme discover -t rdma -a $IP4_A -s 4420 | grep -qx "subnqn: *$NQN"; }
	t "nvme-cli discovers" discovered
	t "nvme-cli connects" nvme_connect $IP4_A
	t "fio, 4 KiB at random" small_verified "$(nvme_disk)"
	t "fio, 1 MiB in a row" large_verified "$(nvme_disk)"
	t "the link goes down and up under load, which goes on" \
		goes_on "$(nvme_disk)" flap $VETH_A
	port_again() { nvmet_port_down && sleep 1 && nvmet_port_up $IP4_A; }
	t "the target's port goes and returns under load, which goes on" \
		goes_on "$(nvme_disk)" port_again
	t "the host is connected" poll 60 nvme_live
	device_goes() {
		load_begins "$(nvme_disk)" && link_del $DEV_A && load_failed && poll 60 nvme_gone
	}
	t "the device goes under load" device_goes
	# The target that listens on an address of the device does not listen again by itself.
	device_and_port() { device_again && nvmet_port_down && nvmet_port_up $IP4_A; }
	t "the device returns" device_and_port
	t "nvme-cli connects again" nvme_connect $IP4_A
	t "data by that" small_verified "$(nvme_disk)"
	t "nvme-cli disconnects" nvme_disconnect
else
	skip "fio and nvme-cli" "they are not installed"
fi
t "the target ends" nvmet_down
t "the device is as it was" no_one_device
modprobe -r nvme-rdma nvmet-rdma brd
finish
