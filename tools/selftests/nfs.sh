#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 time=900
#
# storage: NFS over RDMA works on one device, with data verified. The client registers the memory of
# each file operation, the server reads and writes it. Server and client are in one kernel;
# storage-wire.sh has two machines.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/storage.sh"
need_programs fio mount.nfs rpc.nfsd rpc.mountd rpcbind
need_modules rpcrdma nfsd nfs

t "a device in this namespace" one_device
t "the daemons run" nfs_daemons
t "the server listens on RDMA" nfsd_up
head -c 9000001 /dev/urandom >"$TMP/data"
# again VERSION: the file is on the server, and a client that has nothing of it reads it.
again() {
	cmp "$TMP/data" $EXPORT/data && nfs_umount && nfs_mount $IP4_A "$1" && cmp "$TMP/data" $MOUNT/data
}
# many VERSION: small files, with their names, modes and contents.
many() {
	local i
	mkdir $MOUNT/many || return 1
	for ((i = 0; i < 60; i++)); do
		head -c $((i * i * 7)) /dev/urandom >"$MOUNT/many/a file of number $i" || return 1
	done
	nfs_umount && nfs_mount $IP4_A "$1" && diff -r $MOUNT/many $EXPORT/many &&
		[ "$(ls $MOUNT/many | wc -l)" = 60 ] && rm -r $MOUNT/many && [ ! -e $EXPORT/many ]
}
for version in $NFS_VERSIONS; do
	t "$version: a client mounts" nfs_mount $IP4_A $version
	t "$version: a file goes there" copied_file "$TMP/data" $MOUNT/data
	t "$version: the file comes back" again $version
	t "$version: sixty small files" many $version
	[ $version != vers=4.0 ] || { t "$version: the client unmounts" nfs_umount; continue; }
	t "$version: fio, 4 KiB at random" small_verified $MOUNT/fio
	t "$version: fio, 1 MiB in a row" large_verified $MOUNT/fio
	t "$version: the client unmounts" nfs_umount
done

t "a client of small transfers mounts" nfs_mount $IP4_A vers=4.1,rsize=4096,wsize=4096
t "a file by small transfers" copied_file "$TMP/data" $MOUNT/data2
t "it unmounts" nfs_umount

t "a client mounts" nfs_mount $IP4_A "${NFS_VERSIONS%% *}"
server_again() { nfsd_no_threads && nfsd_threads; }
t "the server restarts under load, which goes on" goes_on $MOUNT/fio server_again
t "the link goes down and up under load, which goes on" goes_on $MOUNT/fio flap $VETH_A
device_returns() { link_del $DEV_A && device_again; }
t "the device goes and returns under load" device_under_load $MOUNT/fio device_returns
t "the mount goes on, data at random" small_verified $MOUNT/fio
t "data after all that" copied_file "$TMP/data" $MOUNT/data
# A lazy unmount: the file system is gone from sight, its load goes on to its end.
unmounted() {
	load_begins $MOUNT/fio && timeout 60 umount -l $MOUNT || return 1
	load_ends_somehow && ! grep -q " $MOUNT nfs" /proc/mounts
}
# The files of the next round are not there any more, the round under way ends well.
load_ends_somehow() {
	: >"$TMP/stop"
	poll 240 load_ended
}
t "the client unmounts under load" unmounted
t "a client mounts again" nfs_mount $IP4_A "${NFS_VERSIONS%% *}"
t "the file is as it was" cmp "$TMP/data" $MOUNT/data
t "the client unmounts" nfs_umount
t "the server ends" nfsd_down
t "the device is as it was" no_one_device
finish
