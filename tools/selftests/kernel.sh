#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: time=900
#
# kernel: the verbs of consumers in the kernel work, also those that no process can call. The
# consumer is the module oxe_ktest (kernel/). Each group of cases runs on one device, without
# packets, and between two devices on a wire. They register lists of one page to as many as the
# device takes, and compare every byte; use keys of each state; post from every context, hard irqs
# included; reuse requests as soon as they complete, while another CPU is in the call that posted
# them; flush requests, and reset or destroy QPs, while another CPU delivers their messages, and
# change the memory at once; have a peer acknowledge messages that a kprobe keeps from being
# delivered to it, and change their memory when they complete; have requests refused in a chain;
# give a peer the key of all memory, which then names addresses without memory; share receives among
# connections and datagrams; drain queues whose CQs ib_core polls in each of its ways; look on which
# CPU events come, whether handlers overlap, and how long events are held; and have their device
# removed, and CPUs taken offline, under traffic. No case asserts that something is fast: an event
# that is to be held must not come before its period, and one that is not to be held has to beat it
# once in thirty times.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/ktest.sh"
need_ktest
hosts_up 1500

# group NAME WHERE [HOW]: the cases of a group, with the module loaded for it alone.
group() {
	local status=0
	if ! ktest_load >"$TMP/log" 2>&1; then
		not_ok "$1 ($2): the test module" "$TMP/log"
		return
	fi
	ktest_run "$1 $2" 2>"$TMP/log" || status=$?
	sed "s/^[^#].*/&${3:+, $3}/" $KTEST_FILES/results >"$TMP/results"
	relay <"$TMP/results"
	[ $status = 0 ] && grep -q '^ok ' "$TMP/results" || not_ok "$1 ($2): status $status" "$TMP/log"
	t "$1 ($2): the test module goes" ktest_unload
}
more() { ktest_run "more ."; }
# cpus_come_and_go: a CPU goes offline and comes back, and the traffic goes on.
cpus_come_and_go() {
	local cpu=/sys/devices/system/cpu/cpu1/online
	[ -e $cpu ] || { echo "this kernel keeps its CPUs online"; return 4; }
	for _ in 1 2 3; do
		{ more && echo 0 >$cpu && more && echo 1 >$cpu && more; } || return 1
	done
}
# removed TRAFFIC WHERE DURING COMMAND...: DURING runs while a consumer in the kernel has traffic,
# then the command ends its device. The consumer sees every request completed.
removed() {
	local traffic=$1 where=$2 status=0 at_work=$3
	shift 3
	if ! ktest_load >"$TMP/log" 2>&1; then
		not_ok "traffic ($where): the test module" "$TMP/log"
		return
	fi
	ktest_run "$traffic $where" 2>"$TMP/log" || status=$?
	[ $status = 0 ] || not_ok "traffic ($where): status $status" "$TMP/log"
	[ -z "$at_work" ] || t "traffic ($where): $at_work" $at_work
	t "removal ($where): $*" "$@"
	t "removal ($where): the device goes" poll 60 gone "$DEV_A"
	relay <$KTEST_FILES/results
	t "removal ($where): the test module goes" ktest_unload
}

# Lent payloads are those of loopback.
loop_alone=" late "
for group in ${GROUPS_RUN:-fastreg inval post srq drain events moderation reuse lent late global}; do
	group "$group" loop
	[[ $loop_alone == *" $group "* ]] || group "$group" wire
done
# adaptive: ib_core sets the moderation of its consumers' CQs by the completions that come.
adaptive() {
	rdma dev set $DEV_A adaptive-moderation on && rdma dev set $DEV_B adaptive-moderation on &&
		rdma -d dev show $DEV_A | grep 'adaptive-moderation on'
}
t "adaptive moderation is switched on" adaptive
group drain loop "moderated"
group drain wire "moderated"
for where in loop wire; do
	removed traffic $where more link_del $DEV_A
	link_add $DEV_A $VETH_A $NS_A && wait_gid $DEV_A $IP4_A >/dev/null
done
# Paced: with one CPU less, traffic without a pause leaves the debug kernel's RCU none.
removed paced wire cpus_come_and_go ip -n $NS_A link del $VETH_A
finish
