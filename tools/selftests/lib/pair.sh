# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A server and its client, one on each of the two hosts: any pair of programs, the pingpongs of
# libibverbs, the tools of perftest.

# listening HOLDER PORT: does anything in that namespace listen on the TCP port?
listening() {
	local hex
	printf -v hex ':%04X 0*:0000 0A' "$2"
	grep -qE "$hex" "/proc/$1/net/tcp" "/proc/$1/net/tcp6"
}
# cm_listening PORT: does a listener of the RDMA connection manager have this port?
cm_listening() { rdma resource show cm_id 2>/dev/null | grep -qE "state LISTEN.*:$1( |$)"; }

LIMIT=120 # seconds a client may take, times SLOW
PORT=20000
WITHIN='' # the command in which both run, such as "ip vrf exec red"

# pair READY SERVER-COMMAND CLIENT-COMMAND: the server on host A, and once it is READY ("tcp PORT",
# "cm PORT" or "none") the client on host B; both as shell lines. Passes if both end with 0. The
# outputs stay in $TMP/server and $TMP/client. MAY_WAIT=1: a server that is still running some
# seconds after its client ended well is ended, and that is no failure: it may wait for a message
# that the wire lost and that is not sent again (the connection manager's DREQ, if the client's
# process is gone). The client must have compared the data.
pair() {
	local ready=$1 server=$2 client=$3 pid status=0 server_status=0 limit=$((LIMIT * SLOW))
	# Not through in_a: a function in the background is one process more, and $! must be that of
	# timeout.
	# shellcheck disable=SC2086 # no word, or some
	nsenter --net=/run/netns/$NS_A timeout -k 2 $((limit + 5)) $WITHIN bash -c "$server" \
		>"$TMP/server" 2>&1 9>&- &
	pid=$!
	case $ready in
	tcp*) poll $LIMIT listening "$HOLD_A" "${ready#tcp }" ;;
	cm*) poll $LIMIT cm_listening "${ready#cm }" ;;
	*) sleep 0.5 ;;
	esac || {
		kill $pid 2>/dev/null
		wait $pid
		cat "$TMP/server"
		echo "the server never listened"
		return 1
	}
	# shellcheck disable=SC2086 # no word, or some
	in_b timeout -k 2 $limit $WITHIN bash -c "$client" >"$TMP/client" 2>&1 9>&- || status=$?
	# A server whose client failed may wait for ever; one whose client ended well ends by
	# itself.
	if [ $status != 0 ]; then
		sleep 0.5
		kill $pid 2>/dev/null
	fi
	if [ $status = 0 ] && [ -n "${MAY_WAIT:-}" ] && ! poll 5 eval "! kill -0 $pid"; then
		echo "the server still waits, and is ended"
		kill $pid
		wait $pid
	else
		wait $pid || server_status=$?
	fi
	echo "--- server: $server (status $server_status)"
	cat "$TMP/server"
	echo "--- client: $client (status $status)"
	cat "$TMP/client"
	[ $status = 0 ] && [ $server_status = 0 ]
}

# pingpong SERVICE GID-A GID-B OPTION...: ibv_SERVICE_pingpong (rc, uc, ud) between the hosts; with
# "self" as GID-B both ends are on host A's device.
pingpong() {
	local run="ibv_$1_pingpong" a="-d $DEV_A -g $2" b="-d $DEV_B -g $3" enter=
	[ "$3" != self ] || b=$a enter="nsenter --net=/run/netns/$NS_A"
	shift 3
	PORT=$((PORT + 1))
	pair "tcp $PORT" "$run $a -p $PORT $*" "$enter $run $b -p $PORT $* $IP4_A"
}

# rows TOOL-OUTPUT: the number of result rows perftest printed. Before each size it measures the
# tick of its clock. On a busy machine that may fail, and the row's times are "inf"; the row still
# shows that the size went through.
rows() { grep -cE '^ *[0-9]+ +[0-9]+ +([0-9]|inf |-?nan )' "$1"; }

# perf TOOL ROWS OPTION...: a perftest tool between the hosts; passes if both ends end well and the
# client prints as many result rows. VIA=6 takes the IPv6 GIDs, VIA=R lets the connection manager
# connect, VIA=loop puts both ends on host A's device.
#
# With VIA=R perftest's ends speak over one connection first, then the server listens again, and the
# client connects again without waiting for that. A client that comes too early is refused, tries
# again with an identifier it has freed, and crashes. Hence a delay of what the client sends.
perf() {
	local tool=$1 rows=$2 ready server client dev=$DEV_B a=$GID4_A b=$GID4_B got=
	shift 2
	PORT=$((PORT + 1))
	ready="tcp $PORT"
	server="$tool -F -p $PORT $*"
	client="$server $IP4_A"
	case ${VIA:-4} in
	6) a=$GID6_A b=$GID6_B ;;
	R) ready="cm $PORT" ;;
	loop) dev=$DEV_A b=$GID4_A client="nsenter --net=/run/netns/$NS_A $client" ;;
	esac
	if [ "${VIA:-4}" = R ]; then
		server="$server -R" client="$client -R"
		modprobe -q sch_netem
		in_b tc qdisc replace dev $VETH_B root netem delay 50ms || return 1
	else
		server="$server -d $DEV_A -x $a" client="$client -d $dev -x $b"
	fi
	pair "$ready" "$server" "$client" || got=failed
	[ "${VIA:-4}" != R ] || in_b tc qdisc del dev $VETH_B root
	[ -z "$got" ] || return 1
	got=$(rows "$TMP/client")
	[ "$got" = "$rows" ] || {
		echo "the client printed $got rows of results, expected $rows"
		return 1
	}
}
