#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: perftest's ib_write_bw and ib_write_lat work in each of their modes. Every size, inline,
# with immediate, several QPs, both directions, the connection manager, IPv6, one device. perftest
# has no event mode for writes: these poll.
# vm: nightly=1
. "$(dirname "$0")/lib.sh"
hosts_up 4200

LIMIT=300 t "ib_write_bw -a" perf ib_write_bw 23 -a -n 5
LIMIT=300 t "ib_write_lat -a" perf ib_write_lat 23 -a -n 5
t "ib_write_bw of 1 byte" perf ib_write_bw 1 -s 1 -n 200
t "ib_write_lat of 1 byte" perf ib_write_lat 1 -s 1 -n 100
t "ib_write_bw inline" perf ib_write_bw 1 -s 64 -I 64 -n 200
t "ib_write_lat inline" perf ib_write_lat 1 -s 100 -I 128 -n 100
t "ib_write_bw with immediate" perf ib_write_bw 1 --write_with_imm -s 4096 -n 50
t "ib_write_lat with immediate" perf ib_write_lat 1 --write_with_imm -s 64 -n 50
t "ib_write_bw, 4 QPs" perf ib_write_bw 1 -s 16384 -q 4 -n 50
t "ib_write_bw both directions" perf ib_write_bw 1 -b -s 16384 -n 60
t "ib_write_bw, post list of 8, a completion for 8" perf ib_write_bw 1 -s 4096 -l 8 -Q 8 -n 160
t "ib_write_bw at path MTU 256" perf ib_write_bw 1 -s 20000 -m 256 -n 20
t "ib_write_bw over UC" perf ib_write_bw 1 -c UC -s 65536 -n 100
t "ib_write_lat over UC" perf ib_write_lat 1 -c UC -s 2048 -n 100
VIA=loop t "ib_write_lat over UC on one device" perf ib_write_lat 1 -c UC -s 64 -n 50
VIA=R t "ib_write_bw -R" perf ib_write_bw 1 -s 16384 -n 50
VIA=R t "ib_write_lat -R" perf ib_write_lat 1 -s 64 -n 50
VIA=6 t "ib_write_bw over IPv6" perf ib_write_bw 1 -s 16384 -n 50
VIA=loop t "ib_write_bw on one device" perf ib_write_bw 1 -s 65536 -n 50
VIA=loop t "ib_write_lat on one device" perf ib_write_lat 1 -s 64 -n 50
finish
