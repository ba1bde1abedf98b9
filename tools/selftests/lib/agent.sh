# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The parts that scripts of two machines on one wire share (see peers in README). The client's
# machine has the cases. The server's machine carries out the client's orders (py/agent.py). Sourced
# after lib.sh.

[ -n "${OXE_PEER_ADDR:-}" ] || skip_all "needs two machines on a wire (see README)"
AGENT=7001
export DEV=${LINK_TYPE}0 PY

# serve: the server's part of a script, to its end, which comes before the machine's limit.
# Functions and variables that orders name have to be exported before.
serve() {
	local limit
	limit=$(sed -n 's/^# vm:.*[ \t]time=\([0-9]*\).*/\1/p' "$0")
	t "server: the client's orders carried out" \
		timeout $(((limit - 50) * SLOW)) python3 "$PY/agent.py" $AGENT
	t "server: the device goes away" link_del $DEV
	finish
}

# order WORD...: a line to the agent, its answer on stdout; the agent's first word is the status.
order() {
	local answer
	exec 8<>"/dev/tcp/$OXE_PEER_ADDR/$AGENT" || return 1
	echo "$*" >&8
	answer=$(cat <&8)
	exec 8>&-
	sed 1d <<<"$answer"
	return "$(head -n 1 <<<"$answer")"
}
# server COMMAND...: a shell line there, to its end.
server() { order "start none $*" && order "finish 120"; }

# agent_answers: the other machine may have to boot again (see vm); without it no case shows
# anything.
agent_answers() {
	t "the server's agent answers" poll 600 order ping
	[ "$FAILED" = 0 ] || finish
}

# both READY SERVER CLIENT: as pair in lib.sh, the server on the other machine; \$DEV in it is the
# server's, and so is each variable that the server's script exports. READY is as in py/agent.py.
# The outputs stay in $TMP/server and $TMP/client, the statuses in SERVER_STATUS and CLIENT_STATUS.
both() {
	local limit=60
	CLIENT_STATUS=0 SERVER_STATUS=0
	order "start $1 $2" || return 1
	timeout -k 2 $((LIMIT * SLOW)) bash -c "$3" >"$TMP/client" 2>&1 || CLIENT_STATUS=$?
	echo "--- client: $3 (status $CLIENT_STATUS)"
	cat "$TMP/client"
	# A server whose client failed may wait for ever.
	[ $CLIENT_STATUS = 0 ] || limit=1
	order "finish $limit" >"$TMP/server" || SERVER_STATUS=$?
	echo "--- server: $2 (status $SERVER_STATUS)"
	cat "$TMP/server"
	[ $CLIENT_STATUS = 0 ] && [ $SERVER_STATUS = 0 ]
}

# sent: the packets that this machine's device has sent.
sent() { cat /sys/class/infiniband/$DEV/ports/1/hw_counters/sent_pkts; }
