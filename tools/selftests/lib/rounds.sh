# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Rounds of removals, for remove.sh and removed.sh: a process that only polls has RC, UC and UD
# traffic and requests that wait, between the two hosts and on one device (py/polled.py), a consumer
# in the kernel has RC traffic beside it, and the link, the netdev, the network namespace or the
# module goes. The process sees each of its requests completed. Sourced after lib.sh.
. "$HERE/lib/ktest.sh"

# The longest removal of each kind, in microseconds.
declare -A LONGEST=([link]=0 [netdev]=0 [namespace]=0 [module]=0)

# removal KIND DEVICES COMMAND...: the command, until the devices are gone from sysfs. Its time is
# noted in $OXE_OUT/removals.
removal() {
	local kind=$1 devices=$2 device took began=${EPOCHREALTIME/./} end=$((SECONDS + 60 * SLOW))
	shift 2
	"$@" || { echo "status $? of: $*"; return 1; }
	for device in $devices; do
		until gone "$device"; do
			[ $SECONDS -lt $end ] || { echo "$device does not go"; return 1; }
			sleep 0.01
		done
	done
	took=$((${EPOCHREALTIME/./} - began))
	echo "$kind: $took us" | tee -a "${OXE_OUT:-$TMP}/removals"
	[ $took -le ${LONGEST[$kind]} ] || LONGEST[$kind]=$took
}
# round_ends KIND: the removals of one round.
round_ends() {
	case $1 in
	link)
		removal link $DEV_A rdma link del $DEV_A && removal link $DEV_B rdma link del $DEV_B
		;;
	netdev) removal netdev "$DEV_A $DEV_B" ip -n $NS_A link del $VETH_A ;;
	namespace)
		# It ends with its last process.
		kill_wait "$HOLD_A"
		removal namespace "$DEV_A $DEV_B" ip netns del $NS_A
		;;
	module) removal module "$DEV_A $DEV_B" module_unload ;;
	esac
}

# warm_up: programs and libraries are read from the disk before a removal is measured. The clock of
# the deterministic machine runs ahead while it is idle, and so while it waits for the disk.
warm_up() {
	cat "$(command -v ip)" "$(command -v rdma)" >/dev/null && ibv_devinfo &&
		python3 "$PY/polled.py" </dev/null
}
# said WORD: the process's next word. The limit of the machine is that of a process that hangs.
said() {
	local line
	read -r line <&"$FROM_SENDER" || { echo "no '$1'"; cat "$TMP/sender"; return 1; }
	[ "$line" = "$1" ] || { echo "'$line', expected '$1'"; cat "$TMP/sender"; return 1; }
}
# consumer_begins WHERE: the consumer in the kernel has traffic on one device, or on the wire.
consumer_begins() {
	ktest_load && ktest_run "paced $1" || { cat $KTEST_FILES/results; return 1; }
}
# consumer_ended: the removal has ended its traffic, and each of its requests has completed.
consumer_ended() {
	cat $KTEST_FILES/results
	grep -q '^ok traffic ends with its device' $KTEST_FILES/results &&
		! grep -q '^not ok' $KTEST_FILES/results && ktest_unload
}
# one_round NUMBER: the kinds of removal take turns, and so do the places of the kernel's traffic.
one_round() {
	local kinds=(link netdev namespace module) places=(wire loop)
	echo "round $1"
	echo "$GID4_A $GID4_B" >&"$TO_SENDER"
	said busy && consumer_begins "${places[($1 + $1 / 4) % 2]}" || return 1
	sleep "$(printf '0.%03d' $(($1 * 37 % 200)))"
	round_ends "${kinds[$1 % 4]}" && said drained && consumer_ended || return 1
	links_down; net_down
	net_up 4200 && links_up
}
# rounds N: so many of them, at moments that differ.
rounds() {
	local i pid status=0
	warm_up || return 1
	coproc SENDER { exec python3 -u "$PY/polled.py" 2>"$TMP/sender" 9>&-; }
	# Bash forgets these when the process ends.
	pid=$SENDER_PID
	exec {FROM_SENDER}<&"${SENDER[0]}" {TO_SENDER}>&"${SENDER[1]}"
	for ((i = 0; i < $1 && status == 0; i++)); do
		one_round $i || status=1
	done
	exec {FROM_SENDER}<&- {TO_SENDER}>&-
	kill_wait "$pid"
	ktest_unload
	return $status
}
# rounds_took: the longest removals, as a comment of TAP.
rounds_took() {
	local kind text=''
	for kind in link netdev namespace module; do
		printf -v text '%s, %s %d ms' "$text" $kind $((LONGEST[$kind] / 1000))
	done
	echo "the longest removals: ${text#, }" | diag
}
