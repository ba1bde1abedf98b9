#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# storage: NVMe, NFS, iSER, SRP and RDS work between two machines, and outlive failures. The
# kernel's users on one wire. fio verifies what it wrote. Under its load links go down, targets
# stop, and devices are deleted and made again; the load has to go on, or, where the disk goes with
# its device, to fail. The client's machine has the cases; the server's carries out orders
# (py/agent.py).
# vm: nightly=1 time=1200 peers=oxe:oxe known=nvmet_config_sem
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/storage.sh"
. "$HERE/lib/agent.sh"
need_programs fio nvme mount.nfs rpc.nfsd rpcbind iscsid
need_modules "brd rd_nr=1 rd_size=65536" sd_mod

up() { need_module && link_add $DEV eth0 && wait_gid $DEV "$OXE_ADDR"; }
t "$OXE_ROLE: a $LINK_TYPE device on the wire" up
# A second without a device: the peers notice.
device_returns() { link_del $DEV && sleep 1 && up; }
# The NVMe target that listens on an address of the device does not listen again by itself.
device_and_port() { device_returns && nvmet_port_down && nvmet_port_up "$OXE_ADDR"; }
export -f up device_returns device_and_port
[ "$OXE_ROLE" = client ] || serve
agent_answers
there=$OXE_PEER_ADDR

# module NAME SERVER-MODULE...: both machines have what this part needs, or it is skipped.
modules() {
	modprobe "$1" 2>/dev/null && server "modprobe -a ${*:2}" >/dev/null 2>&1 && return
	skip "$1" "this kernel has no module $*"
	return 1
}

if modules nvme-rdma nvmet-rdma; then
	t "NVMe: a target listens" server "nvmet_up $there"
	t "NVMe: a host connects" nvme_connect "$there"
	t "NVMe: fio, 4 KiB at random" small_verified "$(nvme_disk)"
	t "NVMe: fio, 1 MiB in a row" large_verified "$(nvme_disk)"
	t "NVMe: the link goes down and up under load, which goes on" \
		goes_on "$(nvme_disk)" flap eth0
	t "NVMe: the target's device goes and returns under load, which goes on" \
		goes_on "$(nvme_disk)" server device_and_port
	device_goes() {
		load_begins "$(nvme_disk)" && link_del $DEV && load_failed && poll 60 nvme_gone && up
	}
	t "NVMe: the host's device goes under load, and returns" device_goes
	t "NVMe: the host connects again" poll 60 nvme_connect "$there"
	t "NVMe: data by that" small_verified "$(nvme_disk)"
	t "NVMe: the host disconnects" nvme_disconnect
	t "NVMe: the target ends" server nvmet_down
fi

if modules nfs nfsd rpcrdma && modprobe rpcrdma; then
	head -c 9000001 /dev/urandom >"$TMP/data"
	t "NFS: the client's daemons run" nfs_daemons
	t "NFS: a server listens on RDMA" server "nfs_daemons && nfsd_up"
	sum=$(sha256sum <"$TMP/data")
	arrived() { server "sha256sum <$EXPORT/data" | grep -F "$sum"; }
	for version in ${NFS_VERSIONS/vers=4.0/}; do
		t "NFS $version: a client mounts" nfs_mount "$there" $version
		t "NFS $version: a file goes there" copied_file "$TMP/data" $MOUNT/data
		t "NFS $version: the server has it" arrived
		again() { nfs_umount && nfs_mount "$there" $version && cmp "$TMP/data" $MOUNT/data; }
		t "NFS $version: it comes back" again
		t "NFS $version: fio, 4 KiB at random" small_verified $MOUNT/fio
		t "NFS $version: fio, 1 MiB in a row" large_verified $MOUNT/fio
		[ "$version" = "${NFS_VERSIONS##* }" ] || t "NFS $version: the client unmounts" nfs_umount
	done
	t "NFS: the server restarts under load, which goes on" \
		goes_on $MOUNT/fio server "nfsd_no_threads && nfsd_threads"
	t "NFS: the client's device goes and returns under load" \
		device_under_load $MOUNT/fio device_returns
	t "NFS: the mount goes on, data at random" small_verified $MOUNT/fio
	t "NFS: the server's device goes and returns under load, which goes on" \
		goes_on $MOUNT/fio server device_returns
	t "NFS: the link goes down and up under load, which goes on" goes_on $MOUNT/fio flap eth0
	t "NFS: the client unmounts" nfs_umount
	t "NFS: the server ends" server nfsd_down
fi

if modules ib_iser target_core_iblock iscsi_target_mod ib_isert; then
	t "iSER: a target listens" server "iser_target_up $there"
	t "iSER: the initiator's daemon runs" iser_begins
	t "iSER: the initiator logs in" iser_login "$there"
	t "iSER: fio, 4 KiB at random" small_verified "$(scsi_disk)"
	t "iSER: fio, 1 MiB in a row" large_verified "$(scsi_disk)"
	t "iSER: the link goes down and up under load, which goes on" \
		iser_goes_on "$(scsi_disk)" flap eth0
	t "iSER: the initiator's device goes and returns under load, which goes on" \
		iser_goes_on "$(scsi_disk)" device_returns
	t "iSER: the initiator logs out" iser_logout "$there"
	t "iSER: the target ends" server "iser_target_down $there"
	pkill -x iscsid
fi

if modules ib_srp target_core_iblock ib_srpt; then
	t "SRP: a target is there" server "srpt_up $DEV $there"
	guid=$(server srpt_guid | head -n 1)
	name=$(server "srpt_port $DEV" | head -n 1)
	t "SRP: the initiator logs in" srp_login $DEV "$guid" "$there"
	t "SRP: fio, 4 KiB at random" small_verified "$(scsi_disk)"
	t "SRP: fio, 1 MiB in a row" large_verified "$(scsi_disk)"
	t "SRP: the initiator logs out" srp_logout
	t "SRP: the target ends" server "srpt_down $name $there"
fi

if modules rds_rdma rds_rdma; then
	datagrams() {
		local before status=0
		before=$(sent)
		order "start none python3 $PY/rds.py echo $there" || return 1
		timeout $((200 * SLOW)) python3 "$PY/rds.py" ask "$OXE_ADDR" "$there" || status=$?
		order "finish 30" || status=$?
		echo "$before packets before, $(sent) now"
		[ $status = 0 ] && [ "$(sent)" -gt $((before + 1000)) ]
	}
	t "RDS: datagrams, by the device" datagrams
	t "RDS: datagrams, by the same connection" datagrams
fi
t "the server ends" order quit
t "the device goes away" link_del $DEV
finish
