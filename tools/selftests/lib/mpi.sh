# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The parts that the scripts of MPI, UCX and libfabric share. Sourced after lib.sh.

# With the strong fence, which UCX would choose for one-sided operations, it reports that a flush is
# not supported.
export UCX_WARN_UNUSED_ENV_VARS=n UCX_FENCE_MODE=weak

# tls_of TYPE: UCX's transports for queue pairs of this type (RC or UD) alone. RC queue pairs are
# connected by datagrams.
tls_of() {
	case $1 in RC) echo rc_verbs,ud_verbs:aux,self ;; *) echo ud_verbs,self ;; esac
}
# relay_mpi NAME STATUS: mpirun's outputs in $TMP/relay and $TMP/relay.err, and its status, become
# cases.
relay_mpi() {
	sed -i -E "s/^(ok|not ok) /\1 $1: /" "$TMP/relay"
	relay <"$TMP/relay"
	grep -hE 'UCX  *ERROR|Fatal:' "$TMP/relay" "$TMP/relay.err" | head -n 5 | diag
	if grep -q 'UCX  *ERROR' "$TMP/relay" "$TMP/relay.err"; then
		not_ok "$1: UCX reports no error" "$TMP/relay.err"
	elif [ "$2" = 0 ]; then
		ok "$1: mpirun ends well"
	else
		not_ok "$1: mpirun ends well (status $2)" "$TMP/relay.err"
	fi
}

# The tests of ucx_perftest. A test is TYPE:LAYOUT:SIZE, one of a transport (UCT), or TYPE:SIZE, one
# of the protocols (UCP).
export PROTOCOLS=(tag_lat:64 tag_lat:100000 tag_bw:64 tag_bw:100000 tag_sync_lat:64
	tag_sync_bw:100000 ucp_put_lat:8 ucp_put_bw:100000 ucp_get:100000 ucp_add:8 ucp_fadd:8 ucp_swap:8
	ucp_cswap:8 stream_lat:64 stream_bw:100000 ucp_am_lat:64 ucp_am_bw:100000)
# batch_of TRANSPORT TEST...: a batch file of ucx_perftest.
batch_of() {
	local tl=$1 test kind layout size
	shift
	for test in "$@"; do
		IFS=: read -r kind layout size <<<"$test"
		if [ -z "$size" ]; then
			echo "$test -t $kind -s $layout"
		else
			echo "$test -t $kind -D $layout -s $size -x $tl"
		fi
	done
}
# batch_cases NAME COUNT TEST...: a case for each of these tests, whose results are in $TMP/client:
# a test that has ended is a line of its name, its messages and figures.
batch_cases() {
	local name=$1 count=$2 test
	shift 2
	for test in "$@"; do
		t "$name: $test" grep -E "^$test, *$count," "$TMP/client"
	done
}

# The row that fi_pingpong prints at its end: size (65537 as 64k), messages sent, answered ...
pinged() {
	grep -qE "^[0-9]+[km]? +30 +=30 " "$TMP/client" || { echo "no row of results"; return 1; }
}
