#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: root tunes each device by its files in debugfs: the congestion controller and DCQCN's
# parameters, which hold for connections that are made from then on (py/dcqcn.py). Bad values are
# refused, others than root see nothing, the files follow a new name, and go with the device, also
# while they are open.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe has no such files"
ROOT=/sys/kernel/debug/oxe
if ! [ -d /sys/kernel/debug ] || ! mountpoint -q /sys/kernel/debug; then
	skip_all "the kernel has no debugfs"
fi
export NS_A VETH_A NS_B VETH_B

# NAME DEFAULT LEAST MOST
PARAMS='rp_clamp_tgt_rate 0 0 1
rp_clamp_tgt_rate_ati 1 0 1
rp_time_reset 300 1 131071
rp_byte_reset 32767 0 4294967295
rp_threshold 1 1 31
rp_ai_rate 5 1 1000000
rp_max_rate 0 0 1000000
rp_hai_rate 50 1 1000000
rp_min_dec_fac 50 0 100
rp_min_rate 1 1 1000000
rp_rate_to_set_on_first_cnp 0 0 1000000
rp_dce_tcp_g 1019 0 1023
rp_dce_tcp_rtt 1 1 131071
rp_rate_reduce_monitor_period 4 1 4294967295
rp_initial_alpha_value 1023 1 1023
rp_gd 11 10 11
np_min_time_between_cnps 4 0 4294967295'

# put FILE VALUE: in one write.
put() { printf '%s' "$2" >"$1"; }
is() { [ "$(cat "$1")" = "$2" ] || { echo "$1: $(cat "$1"), not $2"; return 1; }; }
invalid() { # FILE VALUE
	local before
	before=$(cat "$1")
	if put "$1" "$2" 2>"$TMP/err"; then echo "$1 took '$2'"; return 1; fi
	grep -q 'Invalid argument' "$TMP/err" || { cat "$TMP/err"; return 1; }
	is "$1" "$before"
}

hosts_up 1500
names() {
	ls $ROOT/$DEV_A/cc_params && ls $ROOT/$DEV_B || return
	local want
	want=$(cut -d' ' -f1 <<<"$PARAMS" | LC_ALL=C sort)
	[ "$want" = "$(LC_ALL=C ls $ROOT/$DEV_A/cc_params)" ] &&
		[ "$(cd $ROOT/$DEV_B && echo *)" = "cc_params congestion_control" ]
}
t "each device has its files, and no others" names
values() {
	local name default least most file bad
	while read -r name default least most; do
		file=$ROOT/$DEV_A/cc_params/$name
		is $file $default || return
		put $file $least && is $file $least && put $file "$most
" && is $file $most || return
		for bad in $((least - 1)) $((most + 1)) x "1 2" 0x 4294967296 18446744073709551617
		do
			invalid $file "$bad" || return
		done
		is $ROOT/$DEV_B/cc_params/$name $default && put $file $default || return
	done <<<"$PARAMS"
}
t "each parameter reads back, bad values change nothing, the other device has its own" values
controllers() {
	local file=$ROOT/$DEV_A/congestion_control bad
	is $file cubic && echo dcqcn >$file && is $file dcqcn || return
	for bad in reno dcqc dcqcnn "dcqcn cubic" 1 "$(printf 'x%.0s' {1..5000})"; do
		invalid $file "$bad" || return
	done
	is $ROOT/$DEV_B/congestion_control cubic && put $file cubic && is $file cubic
}
t "the controller is chosen by name, of one device" controllers
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
refused() {
	! as_nobody ls $ROOT && ! as_nobody cat $ROOT/$DEV_A/congestion_control || return
	[ "$(cd $ROOT/$DEV_A && stat -c %a congestion_control cc_params/* | sort -u)" = 600 ]
}
t "root alone has them" refused
relay_py dcqcn tuned

renamed() {
	local status=0
	rdma dev set $DEV_A name tuned0 || return
	is $ROOT/tuned0/congestion_control cubic && [ ! -e $ROOT/$DEV_A ] || status=1
	rdma dev set tuned0 name $DEV_A && is $ROOT/$DEV_A/congestion_control cubic &&
		[ $status = 0 ]
}
t "they follow the device's name" renamed
# A file that is open when its device goes: no value any more, and the module stays until its close.
opened() {
	exec 7<>$ROOT/$DEV_A/congestion_control 8<>$ROOT/$DEV_A/cc_params/rp_gd || return
	link_del $DEV_A
	[ ! -e $ROOT/$DEV_A ] || { echo "$ROOT/$DEV_A"; return 1; }
	! cat <&7 && ! cat <&8 && ! echo dcqcn >&7 || return
	link_add $DEV_A $VETH_A $NS_A && is $ROOT/$DEV_A/congestion_control cubic || return
	! cat <&7 || return
	links_down
	! module_unload || return
	exec 7>&- 8>&-
	module_unload && [ ! -e $ROOT ]
}
t "a file that is open while the device goes" opened
module_load
round() {
	local i pid
	for ((i = 0; i < 20; i++)); do
		links_up || return
		while :; do cat $ROOT/*/*/* && echo dcqcn >$ROOT/$DEV_A/congestion_control; done \
			>/dev/null 2>&1 &
		pid=$!
		links_down
		kill_wait $pid
		poll 60 module_unload && [ ! -e $ROOT ] && module_load ||
			{ echo "round $i"; return 1; }
	done
}
t "20 times loaded and unloaded, with readers and writers" round
t "the default is the module's parameter" eval \
	'module_unload && module_load congestion_control=dcqcn np_min_time_between_cnps=7 &&
	links_up && is $ROOT/$DEV_A/congestion_control dcqcn &&
	is $ROOT/$DEV_B/cc_params/np_min_time_between_cnps 7'
finish
