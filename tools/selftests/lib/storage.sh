# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The parts that the scripts of storage share: targets and their hosts (NVMe over fabrics, iSER,
# SRP, NFS), disks, and fio, which verifies each block that it wrote. Sourced after lib.sh. The
# functions are exported, so that the server of two machines can carry them out (see
# storage-wire.sh).

set -a
export -f poll link_add link_del wait_gid gid_index gid_of need_module module_load

# need_modules "MODULE PARAMETER"...: the kernel's modules, or the script is skipped.
need_modules() {
	local module
	for module in "$@"; do
		# shellcheck disable=SC2086 # a module and its parameters
		modprobe $module 2>/dev/null || skip_all "this kernel has no module ${module%% *}"
	done
}
# need_programs NAME...: the same for programs.
need_programs() {
	local name
	for name in "$@"; do
		command -v "$name" >/dev/null || skip_all "this machine has no $name"
	done
}

# one_device: a device in this namespace, on which target and host meet.
one_device() {
	ip link add $VETH_A type veth peer name $VETH_B && ip addr add $IP4_A/24 dev $VETH_A &&
		ip link set $VETH_A up && ip link set $VETH_B up && need_module && device_again
}
device_again() { link_add $DEV_A $VETH_A && wait_gid $DEV_A $IP4_A; }
no_one_device() { ibv_devinfo -d $DEV_A && link_del $DEV_A && ip link del $VETH_A; }
# flap NETDEV: down, and up after a second.
flap() { ip link set "$1" down && sleep 1 && ip link set "$1" up; }

# ---------------------------------------------------------------- load

# fio_verified FILE BLOCK-SIZE PATTERN ENGINE MIB: direct I/O, 32 requests at a time; fio writes a
# checksum with each block and compares when it has read everything back.
fio_verified() {
	timeout $((180 * SLOW)) fio --name=verified --filename="$1" --bs="$2" --rw="$3" \
		--ioengine="$4" --size="$5m" --direct=1 --iodepth=32 --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --output-format=normal
}
small_verified() { fio_verified "$1" 4k randwrite io_uring 8; }
large_verified() { fio_verified "$1" 1m write libaio 32; }

# load_begins FILE: rounds of fio in the background, until load_stops. A file that is no more is not
# made.
load_begins() {
	rm -f "$TMP/stop"
	{
		while [ ! -e "$TMP/stop" ]; do
			timeout $((180 * SLOW)) fio --name=load --filename="$1" --bs=16k --rw=randrw \
				--ioengine=libaio --size=8m --direct=1 --iodepth=32 --verify=crc32c \
				--do_verify=1 --verify_fatal=1 --allow_file_create=0 --time_based \
				--runtime=$((5 * SLOW)) || exit 1
		done
	} >"$TMP/load" 2>&1 9>&- &
	LOAD=$!
	poll 60 pgrep -x fio && sleep 2 && kill -0 "$LOAD"
}
load_ended() { ! kill -0 "$LOAD"; }
# load_stops: the round under way has to end well.
load_stops() {
	local status=0
	: >"$TMP/stop"
	poll 240 load_ended || kill "$LOAD"
	wait "$LOAD" || status=$?
	[ $status = 0 ] || grep -E 'err=|fio:|verify:|error' "$TMP/load"
	return $status
}
# device_under_load FILE COMMAND...: for NFS. A client that connects again while its device goes may
# fail the requests under way with EINVAL (so with rdma_rxe); other errors, and of fio's comparison,
# are failures.
device_under_load() {
	load_begins "$1" && "${@:2}" || return 1
	: >"$TMP/stop"
	poll 240 load_ended || kill "$LOAD"
	wait "$LOAD" && return
	grep -E 'err=|fio:|verify:' "$TMP/load"
	grep -q 'err=22/.*error=Invalid argument' "$TMP/load" && load_compared
}
# load_compared: what the load read back was what it had written.
load_compared() { ! grep -E 'verify(:| failed)' "$TMP/load"; }
# load_failed: the load ends by itself, with an error: its disk is gone.
load_failed() {
	poll 240 load_ended || kill "$LOAD"
	wait "$LOAD" || return 0
	echo "the load did not fail"
	return 1
}
# goes_on FILE COMMAND...: the file's load waits while this is done to it, and goes on.
goes_on() {
	load_begins "$1" && "${@:2}" && load_stops
}

# copied_file FROM TO: a file goes there, and is compared.
copied_file() {
	timeout $((120 * SLOW)) dd if="$1" of="$2" bs=1M conv=fsync status=none &&
		timeout $((120 * SLOW)) cmp "$1" "$2"
}

# ---------------------------------------------------------------- NVMe over fabrics

NVMET=/sys/kernel/config/nvmet NQN=oxe-test
nvmet_up() { # ADDRESS
	mkdir $NVMET/subsystems/$NQN && echo 1 >$NVMET/subsystems/$NQN/attr_allow_any_host &&
		mkdir $NVMET/subsystems/$NQN/namespaces/1 &&
		echo -n /dev/ram0 >$NVMET/subsystems/$NQN/namespaces/1/device_path &&
		echo 1 >$NVMET/subsystems/$NQN/namespaces/1/enable && nvmet_port_up "$1"
}
nvmet_port_up() { # ADDRESS
	mkdir $NVMET/ports/1 && echo rdma >$NVMET/ports/1/addr_trtype &&
		echo ipv4 >$NVMET/ports/1/addr_adrfam && echo "$1" >$NVMET/ports/1/addr_traddr &&
		echo 4420 >$NVMET/ports/1/addr_trsvcid &&
		ln -s $NVMET/subsystems/$NQN $NVMET/ports/1/subsystems/$NQN
}
nvmet_port_down() { rm -f $NVMET/ports/1/subsystems/$NQN && rmdir $NVMET/ports/1; }
nvmet_down() {
	nvmet_port_down
	echo 0 >$NVMET/subsystems/$NQN/namespaces/1/enable
	rmdir $NVMET/subsystems/$NQN/namespaces/1 $NVMET/subsystems/$NQN
}
# nvme_disk: the host's block device, once it is there.
nvme_disk() { ls /dev/nvme*n1 2>/dev/null | head -n 1; }
nvme_ready() { [ -b "$(nvme_disk)" ]; }
nvme_gone() { ! nvme_ready; }
nvme_connect() { # ADDRESS [OPTION...]
	timeout $((60 * SLOW)) nvme connect -t rdma -a "$1" -s 4420 -n $NQN --nr-io-queues=2 \
		--reconnect-delay=1 "${@:2}" && poll 60 nvme_ready
}
nvme_disconnect() { timeout $((120 * SLOW)) nvme disconnect -n $NQN && poll 60 nvme_gone; }
nvme_live() { grep -qx live /sys/class/nvme/nvme*/state; }

# ---------------------------------------------------------------- SCSI: iSER and SRP

TARGET=/sys/kernel/config/target IQN=iqn.2026-01.test.oxe:disk
SCSI_DISK=$TARGET/core/iblock_0/disk
scsi_disk_up() {
	mkdir -p $SCSI_DISK && echo udev_path=/dev/ram0,readonly=0 >$SCSI_DISK/control &&
		echo 1 >$SCSI_DISK/enable
}
scsi_disk_down() { rmdir $SCSI_DISK ${SCSI_DISK%/*}; }
scsi_disk() { ls /dev/sd? 2>/dev/null | head -n 1; }
scsi_ready() { [ -b "$(scsi_disk)" ] && [ "$(blockdev --getsz "$(scsi_disk)")" != 0 ]; }
scsi_gone() { [ -z "$(scsi_disk)" ]; }

ISER=$TARGET/iscsi/$IQN/tpgt_1
iser_target_up() { # ADDRESS
	scsi_disk_up && mkdir -p $ISER/np/"$1":3260 $ISER/lun/lun_0 &&
		ln -s $SCSI_DISK $ISER/lun/lun_0/disk && echo 0 >$ISER/attrib/authentication &&
		echo 0 >$ISER/attrib/demo_mode_write_protect && echo 1 >$ISER/attrib/generate_node_acls &&
		echo 1 >$ISER/attrib/cache_dynamic_acls && iser_portal "$1" 1 && echo 1 >$ISER/enable
}
# iser_portal ADDRESS 0|1: whether the portal takes iSER.
iser_portal() { echo "$2" >$ISER/np/"$1":3260/iser; }
iser_target_down() { # ADDRESS
	echo 0 >$ISER/enable
	rm -f $ISER/lun/lun_0/disk
	rmdir $ISER/lun/lun_0 $ISER/np/"$1":3260 $ISER ${ISER%/*} && scsi_disk_down
}
iser_begins() {
	mkdir -p /run/lock/iscsi && iscsid && poll 60 iscsiadm -m iface
}
iser_node() { # ADDRESS OPTION...
	timeout $((120 * SLOW)) iscsiadm -m node -T $IQN -p "$1":3260 "${@:2}"
}
iser_login() { # ADDRESS
	iser_node "$1" -I iser -o new && iser_node "$1" -l && poll 60 scsi_ready
}
iser_logout() { iser_node "$1" -u && poll 60 scsi_gone; }
# iser_goes_on FILE COMMAND...: goes_on. The initiator itself fails, with DID_ABORT, a command that
# comes between the end of its connection and the stop of its queue: iser_initialize_task_headers()
# finds the connection not up. It says so in the kernel's log; then, and only then, once more.
iser_refusals() { dmesg | grep -c 'iscsi_iser_task_init: Failed to init task .* err = -19'; }
iser_goes_on() {
	local before attempt
	for attempt in 1 2 3; do
		before=$(iser_refusals)
		goes_on "$@" && return
		echo "attempt $attempt: $before refused before, $(iser_refusals) now"
		[ "$(iser_refusals)" -gt "$before" ] && load_compared || return 1
	done
	return 1
}
iser_live() { grep -qx LOGGED_IN /sys/class/iscsi_session/session*/state; }

SRP_PORT=5555
SRPT=$TARGET/srpt
# srpt_port DEVICE: the port's name to the target, its GUID.
srpt_guid() { tr -d : </sys/module/ib_srpt/parameters/srpt_service_guid | sed 's/^0x//'; }
srpt_port() { cat /sys/class/infiniband/"$1"/node_guid; }
# The target knows each initiator that comes by the connection manager by the target's own address.
srpt_up() { # DEVICE ADDRESS
	local port
	port=$SRPT/$(srpt_port "$1")/$(srpt_port "$1")
	scsi_disk_up && mkdir -p "$port/lun/lun_0" && ln -s $SCSI_DISK "$port/lun/lun_0/disk" &&
		mkdir "$port/acls/$2" && mkdir "$port/acls/$2/lun_0" &&
		ln -s "$port/lun/lun_0" "$port/acls/$2/lun_0/lun" && echo 1 >"$port/enable" &&
		echo $SRP_PORT >$SRPT/discovery_auth/rdma_cm_port
}
srpt_down() { # PORT ADDRESS
	local port=$SRPT/$1/$1
	echo 0 >"$port/enable"
	rm -f "$port/acls/$2/lun_0/lun"
	rmdir "$port/acls/$2/lun_0" "$port/acls/$2"
	rm -f "$port/lun/lun_0/disk"
	rmdir "$port/lun/lun_0" "$port" "${port%/*}" && scsi_disk_down
}
srp_login() { # DEVICE GUID ADDRESS
	local line="id_ext=$2,ioc_guid=$2,dest=$3:$SRP_PORT,queue_size=64"
	# An initiator that has logged out goes later, and until then the target is refused as known.
	poll 60 timeout $((60 * SLOW)) \
		sh -c "echo $line >/sys/class/infiniband_srp/srp-$1-1/add_target" && poll 60 scsi_ready
}
srp_logout() {
	local port
	for port in /sys/class/srp_remote_ports/port-*; do
		echo 1 >"$port/delete" || return 1
	done
	poll 60 scsi_gone
}

# ---------------------------------------------------------------- NFS

EXPORT=/srv/oxe MOUNT=/mnt/oxe
# Mount options for the versions that this kernel has, the newest first. The debug kernel has one.
export NFS_VERSIONS="vers=4.2 vers=4.0 vers=3"
[ "${OXE_KERNEL:-}" != debug ] || export NFS_VERSIONS=vers=4.1
in_portlist() { grep -qx "rdma 20049" /proc/fs/nfsd/portlist; }
# The daemons that a machine with systemd has running.
nfs_daemons() {
	mkdir -p /run/rpc_pipefs /run/rpcbind $EXPORT $MOUNT
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || return 1
	mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs sunrpc /run/rpc_pipefs || return 1
	rpcbind -w && poll 60 rpcinfo -p && rpc.statd --no-notify
}
nfsd_up() {
	mountpoint -q $EXPORT || mount -t tmpfs -o size=256m tmpfs $EXPORT || return 1
	pgrep -x nfsdcld || nfsdcld || return 1
	pgrep -x rpc.mountd || rpc.mountd || return 1
	exportfs -o rw,no_root_squash,insecure,fsid=1 "*:$EXPORT" && nfsd_threads
}
nfsd_threads() {
	# Clients of before may take their locks back for so long.
	echo 10 >/proc/fs/nfsd/nfsv4leasetime && echo 10 >/proc/fs/nfsd/nfsv4gracetime &&
		timeout $((60 * SLOW)) rpc.nfsd --rdma=20049 4 && in_portlist
}
nfsd_no_threads() { timeout $((60 * SLOW)) rpc.nfsd 0; }
nfsd_down() {
	nfsd_no_threads && exportfs -u "*:$EXPORT" && exportfs -f && umount $EXPORT
}
nfs_mount() { # ADDRESS OPTION
	timeout $((120 * SLOW)) mount -t nfs -o "rdma,port=20049,$2" "$1:$EXPORT" $MOUNT &&
		grep -q "^$1:$EXPORT $MOUNT nfs.*proto=rdma" /proc/mounts
}
nfs_umount() { timeout $((120 * SLOW)) umount $MOUNT; }
set +a
