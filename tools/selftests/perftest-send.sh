#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: perftest's ib_send_bw and ib_send_lat work in each of their modes. Every size, events,
# inline, several QPs, both directions at once, UC, UD, the connection manager, IPv6, and both ends
# on one device. Completion events throughout but where the name says polling.
. "$(dirname "$0")/lib.sh"
hosts_up 4200

LIMIT=300 t "ib_send_bw -a" perf ib_send_bw 23 -e -a -n 5
LIMIT=300 t "ib_send_lat -a" perf ib_send_lat 23 -e -a -n 5
t "ib_send_bw of 1 byte" perf ib_send_bw 1 -e -s 1 -n 200
t "ib_send_lat of 1 byte" perf ib_send_lat 1 -e -s 1 -n 100
t "ib_send_bw, polling" perf ib_send_bw 1 -s 65536 -n 50
t "ib_send_lat, polling" perf ib_send_lat 1 -s 64 -n 100
t "ib_send_bw inline" perf ib_send_bw 1 -e -s 64 -I 64 -n 200
t "ib_send_lat inline" perf ib_send_lat 1 -e -s 100 -I 128 -n 100
t "ib_send_bw, 4 QPs" perf ib_send_bw 1 -e -s 16384 -q 4 -n 50
t "ib_send_bw both directions" perf ib_send_bw 1 -b -s 16384 -n 60
t "ib_send_bw both directions, 4 QPs" perf ib_send_bw 1 -b -s 4096 -q 4 -n 40
t "ib_send_bw, post list of 8, a completion for 8" perf ib_send_bw 1 -e -s 4096 -l 8 -Q 8 -n 160
t "ib_send_bw at path MTU 256" perf ib_send_bw 1 -e -s 20000 -m 256 -n 20
t "ib_send_bw over UC" perf ib_send_bw 1 -e -c UC -s 65536 -n 100
t "ib_send_lat over UC" perf ib_send_lat 1 -e -c UC -s 2048 -n 100
VIA=loop t "ib_send_bw over UC on one device" perf ib_send_bw 1 -e -c UC -s 65536 -n 100
t "ib_send_bw over UD" perf ib_send_bw 1 -e -c UD -s 1024 -n 100
t "ib_send_lat over UD" perf ib_send_lat 1 -e -c UD -s 2048 -n 100
VIA=R t "ib_send_bw -R" perf ib_send_bw 1 -e -s 16384 -n 50
VIA=R t "ib_send_lat -R" perf ib_send_lat 1 -e -s 64 -n 50
VIA=R t "ib_send_bw -R over UD" perf ib_send_bw 1 -e -c UD -s 1024 -n 50
VIA=6 t "ib_send_bw over IPv6" perf ib_send_bw 1 -e -s 16384 -n 50
VIA=loop t "ib_send_bw on one device" perf ib_send_bw 1 -e -s 65536 -n 50
VIA=loop t "ib_send_lat on one device" perf ib_send_lat 1 -e -s 64 -n 50
finish
