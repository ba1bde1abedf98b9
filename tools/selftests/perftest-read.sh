#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: perftest's ib_read_bw and ib_read_lat work in each of their modes. Every size, few and
# many outstanding, several QPs, both directions, the connection manager, IPv6, one device.
# vm: nightly=1
. "$(dirname "$0")/lib.sh"
hosts_up 4200

# The responder sends the whole response without a pause; 40 MiB are far more than a slow receiver
# keeps, and it takes that receiver longer than the usual timeout to discard the packets that came
# in vain. -u 18: a second.
LIMIT=300 t "ib_read_bw -a" perf ib_read_bw 23 -e -a -n 5 -u 18
LIMIT=300 t "ib_read_lat -a" perf ib_read_lat 23 -e -a -n 5
t "ib_read_bw of 1 byte" perf ib_read_bw 1 -e -s 1 -n 200
t "ib_read_lat of 1 byte" perf ib_read_lat 1 -e -s 1 -n 100
t "ib_read_bw, polling" perf ib_read_bw 1 -s 65536 -n 50
t "ib_read_bw, one outstanding" perf ib_read_bw 1 -e -o 1 -s 16384 -n 50
t "ib_read_bw, 16 outstanding" perf ib_read_bw 1 -e -o 16 -s 4096 -n 100
t "ib_read_bw, 4 QPs" perf ib_read_bw 1 -e -s 16384 -q 4 -n 50
t "ib_read_bw both directions" perf ib_read_bw 1 -b -s 16384 -n 60
t "ib_read_bw at path MTU 256" perf ib_read_bw 1 -e -s 20000 -m 256 -n 20
VIA=R t "ib_read_bw -R" perf ib_read_bw 1 -e -s 16384 -n 50
VIA=R t "ib_read_lat -R" perf ib_read_lat 1 -e -s 64 -n 50
VIA=6 t "ib_read_bw over IPv6" perf ib_read_bw 1 -e -s 16384 -n 50
VIA=loop t "ib_read_bw on one device" perf ib_read_bw 1 -e -s 65536 -n 50
VIA=loop t "ib_read_lat on one device" perf ib_read_lat 1 -e -s 64 -n 50
finish
