#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Figures of the kernel's storage over the driver LINK_TYPE, for bench.py: fio on NVMe over fabrics
# or on NFS, 32 requests at a time, host and target in one kernel and on one device, their data in
# memory. Prints a line for each figure, NAME VALUE REQUESTS: microseconds for each request of 4
# KiB, Gb/s with those of 1 MiB. The instructions of the figures are counted as those of the series
# from OXE_SERIES on, with the library PRELOAD (ticks.c).
# Usage: storage.sh nvme|nfs
set -eu
export TAP=0
. "$(dirname "$0")/../selftests/lib.sh"
. "$HERE/lib/storage.sh"

# figure NAME FILE PATTERN BLOCK-SIZE MIB: all of it four times, as fio counts milliseconds.
figure() {
	env OXE_SERIES=$OXE_SERIES ${PRELOAD:+LD_PRELOAD=$PRELOAD} fio --name=figure \
		--filename="$2" --rw="$3" --bs="$4" --size="$5m" --loops=4 --direct=1 \
		--iodepth=32 --ioengine=libaio --output-format=json >"$TMP/fio"
	python3 - "$1" "$TMP/fio" "$4" <<'T'
import json, sys

name, file, size = sys.argv[1:]
with open(file, encoding="ascii") as text:
    jobs = json.load(text)["jobs"]
done = max((jobs[0][way] for way in ("read", "write")), key=lambda way: way["total_ios"])
figure = 1e6 / done["iops"] if size == "4k" else done["bw_bytes"] * 8 / 1e9
print(name, figure, done["total_ios"])
T
	OXE_SERIES=$((OXE_SERIES + 1))
}
figures() { # FILE: the first write gives it its pages
	quietly dd if=/dev/urandom of="$1" bs=1M count=32 oflag=direct
	figure "4 KiB random read" "$1" randread 4k 8
	figure "4 KiB random write" "$1" randwrite 4k 8
	figure "1 MiB read" "$1" read 1m 32
	figure "1 MiB write" "$1" write 1m 32
}

# quietly COMMAND...: what it prints counts only if it fails, and then it is the end.
quietly() {
	"$@" >"$TMP/log" 2>&1 && return
	cat "$TMP/log" >&2
	exit 1
}
nvme_up() {
	modprobe brd rd_nr=1 rd_size=65536 && modprobe -a nvmet-rdma nvme-rdma &&
		nvmet_up $IP4_A && nvme_connect $IP4_A
}
nvme_down() { nvme_disconnect && nvmet_down; }
nfs_up() {
	modprobe -a rpcrdma nfsd nfs && { rpcinfo -p || nfs_daemons; } && nfsd_up &&
		nfs_mount $IP4_A vers=4.2
}
nfs_down() { rm $MOUNT/figure && nfs_umount && nfsd_down; }

quietly one_device
quietly "$1_up"
case $1 in
nvme) figures "$(nvme_disk)" ;;
nfs) figures $MOUNT/figure ;;
esac
quietly "$1_down"
quietly no_one_device
# shellcheck disable=SC2034 # for at_exit
FINISHED=1
