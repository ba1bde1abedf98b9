#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1
#
# program: perftest's ib_atomic_bw and ib_atomic_lat work in each of their modes. Both operations,
# few and many outstanding, several QPs, both directions, the connection manager, IPv6, one device.
. "$(dirname "$0")/lib.sh"
hosts_up 4200

for type in FETCH_AND_ADD CMP_AND_SWAP; do
	t "ib_atomic_bw $type" perf ib_atomic_bw 1 -e -A $type -n 100
	t "ib_atomic_lat $type" perf ib_atomic_lat 1 -e -A $type -n 100
done
t "ib_atomic_bw, polling" perf ib_atomic_bw 1 -n 200
t "ib_atomic_bw, one outstanding" perf ib_atomic_bw 1 -e -o 1 -n 50
t "ib_atomic_bw, 16 outstanding" perf ib_atomic_bw 1 -e -o 16 -n 200
t "ib_atomic_bw, 4 QPs" perf ib_atomic_bw 1 -e -q 4 -n 50
t "ib_atomic_bw both directions" perf ib_atomic_bw 1 -b -n 60
VIA=R t "ib_atomic_bw -R" perf ib_atomic_bw 1 -e -n 50
VIA=R t "ib_atomic_lat -R" perf ib_atomic_lat 1 -e -n 50
VIA=6 t "ib_atomic_bw over IPv6" perf ib_atomic_bw 1 -e -n 50
VIA=loop t "ib_atomic_bw on one device" perf ib_atomic_bw 1 -e -n 50
finish
