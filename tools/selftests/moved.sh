#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: an address may go away, come back and move to another host. py/away.py; one of the
# device's own, to which messages go without packets, moves to another host (py/moved.py).
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "only oxe has a way without packets"
MOVING=10.77.0.9
hosts_up 1500
export NS_B VETH_B IP4_B
relay_py away
moving_up() {
	ip -n $NS_A addr add $MOVING/24 dev $VETH_A && GID_MOVING=$(wait_gid $DEV_A $MOVING)
}
t "host A has another address" moving_up
move() {
	ip -n $NS_A addr del $MOVING/24 dev $VETH_A && poll 60 eval '! gid_index $DEV_A $MOVING' &&
		ip -n $NS_B addr add $MOVING/24 dev $VETH_B && wait_gid $DEV_B $MOVING
}
# py/moved.py waits for a line between its two parts, before and after the move.
t_moved() {
	local pid status=0
	mkfifo "$TMP/go"
	GID_MOVING=$GID_MOVING python3 -u "$PY/moved.py" <"$TMP/go" >"$TMP/moved" 2>&1 9>&- &
	pid=$!
	exec 8>"$TMP/go"
	poll 60 grep -q 'ready' "$TMP/moved" || { cat "$TMP/moved"; return 1; }
	move || status=1
	echo >&8
	wait $pid || status=1
	exec 8>&-
	cat "$TMP/moved"
	return $status
}
t "an address that moved to another host is reached there" t_moved
finish
