#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: MPI, UCX and libfabric work between two machines by the commands of their guide. Those of
# users/mpi.rst. Open MPI starts its processes by ssh: 2 with messages up to 4 MiB and 8 with
# smaller ones (py/mpi.py, every byte compared), over rc_verbs and ud_verbs, IPv4 and IPv6. Each
# process looks for its queue pairs, and the device's counters have to show as many packets as the
# messages take. The protocols of ucx_perftest and the endpoints of libfabric follow. The client's
# machine has the cases; the server's carries out orders (py/agent.py).
# vm: nightly=1 time=1800 peers=oxe:oxe
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/agent.sh"
. "$HERE/lib/mpi.sh"
for program in mpirun ucx_perftest fi_pingpong sshd ssh-keygen; do
	command -v $program >/dev/null || skip_all "$program is missing"
done
python3 -c 'import mpi4py' 2>/dev/null || skip_all "mpi4py is missing"
SIX_SERVER=fd99::1 SIX_CLIENT=fd99::2

# The machines' own names, by which mpirun knows them.
names() {
	local peer=server
	[ "$OXE_ROLE" = client ] || peer=client
	printf '%s oxe-%s\n' "$OXE_ADDR" "$OXE_ROLE" "$OXE_PEER_ADDR" $peer >>/etc/hosts &&
		hostname "oxe-$OXE_ROLE"
}
up() {
	local six=$SIX_CLIENT
	[ "$OXE_ROLE" = client ] || six=$SIX_SERVER
	names && ip -6 addr add $six/64 dev eth0 nodad && need_module && link_add $DEV eth0 &&
		GID4=$(wait_gid $DEV "$OXE_ADDR") && GID6=$(wait_gid $DEV $six)
}
t "$OXE_ROLE: a $LINK_TYPE device on the wire" up
# sshd_up PUBLIC-KEY: sshd takes root by this key; prints the host's own public key.
sshd_up() {
	mkdir -p /run/sshd /root/.ssh && chmod 700 /root/.ssh &&
		echo "$*" >/root/.ssh/authorized_keys &&
		ssh-keygen -A >/dev/null && /usr/sbin/sshd && cat /etc/ssh/ssh_host_ed25519_key.pub
}
known_neighbour() { # ADDRESS ADDRESS ETHERNET-ADDRESS
	ip neigh replace "$1" lladdr "$3" dev eth0 nud permanent &&
		ip neigh replace "$2" lladdr "$3" dev eth0 nud permanent
}
export GID4 GID6
export -f sshd_up known_neighbour
[ "$OXE_ROLE" = client ] || serve
agent_answers

same_indices() { [ "$(server 'echo $GID4 $GID6' | head -n 1)" = "$GID4 $GID6" ]; }
t "the GID indices are the same on both machines" same_indices
# neighbours: for good, as in lib.sh. ib_core gives a second to find one.
neighbours() {
	local mine its
	mine=$(cat /sys/class/net/eth0/address)
	its=$(server "cat /sys/class/net/eth0/address" | head -n 1)
	known_neighbour "$OXE_PEER_ADDR" $SIX_SERVER "$its" &&
		server "known_neighbour $OXE_ADDR $SIX_CLIENT $mine"
}
t "the machines know each other's Ethernet addresses" neighbours
ssh_works() {
	local key=/root/.ssh/id_ed25519
	mkdir -p /root/.ssh && chmod 700 /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f $key &&
		server "sshd_up $(cat $key.pub)" >"$TMP/host-key" || return 1
	sed -n 's/^ssh/oxe-server ssh/p' "$TMP/host-key" >/root/.ssh/known_hosts
	[ "$(timeout $((120 * SLOW)) ssh -o BatchMode=yes oxe-server hostname)" = oxe-server ]
}
t "ssh to the server" ssh_works
[ "$FAILED" = 0 ] || finish

export UCX_NET_DEVICES=$DEV:1 UCX_IB_GID_INDEX UCX_TLS
# way TYPE VERSION: queue pairs and GID that UCX is to use.
way() {
	UCX_TLS=$(tls_of "$1") UCX_IB_GID_INDEX=$GID4
	[ "$2" = 4 ] || UCX_IB_GID_INDEX=$GID6
}
received() { cat /sys/class/infiniband/$DEV/ports/1/hw_counters/rcvd_pkts; }
# carried COUNT SENT RECEIVED: since these counts the device has sent and received so many packets.
carried() {
	local out=$(($(sent) - $2)) in=$(($(received) - $3))
	echo "$out packets sent, $in received; the server's counters:"
	server "rdma statistic show link $DEV/1"
	[ $out -ge "$1" ] && [ $in -ge "$1" ]
}

# mpi TYPE VERSION RANKS LARGEST PART...: the program's cases become ours.
LIMIT=600
mpi() {
	local name="MPI, $1, IPv$2, $3 processes" type=$1 ranks=$3 largest=$4 status=0
	local before after more=()
	way "$1" "$2"
	shift 4
	[ "$ranks" = 2 ] || more=(--oversubscribe)
	before=$(sent) after=$(received)
	timeout -k 5 $((LIMIT * SLOW)) mpirun -n "$ranks" --host oxe-client,oxe-server \
		--map-by node --mca pml ucx --mca osc ucx "${more[@]}" --allow-run-as-root \
		-x UCX_NET_DEVICES -x UCX_IB_GID_INDEX -x UCX_FENCE_MODE -x UCX_TLS -x DEV \
		python3 "$PY/mpi.py" "$largest" "$type" "$@" >"$TMP/relay" 2>"$TMP/relay.err" || status=$?
	relay_mpi "$name" $status
	# Ranks 2n and 2n + 1 are on different machines, and exchange messages of all sizes three times.
	# A packet has 1024 bytes.
	t "$name: the device carried the data" \
		carried $((ranks / 2 * 3 * largest / 1024)) "$before" "$after"
}
for type in RC UD; do
	mpi $type 4 2 $((4 << 20)) p2p coll rma
	mpi $type 6 2 $((4 << 20)) p2p coll
	mpi $type 4 8 16384 p2p coll
	mpi $type 6 8 16384 p2p coll
done
mpi RC 4 8 65536 rma

# ucx COUNT OPTION...: ucx_perftest with these options, and with SERVER_OPTIONS on the server; each
# side sends COUNT packets at least.
LIMIT=120
ucx() {
	local count=$1 out in vars
	out=$(sent) in=$(received)
	shift
	PORT=$((PORT + 1))
	vars="UCX_NET_DEVICES=$UCX_NET_DEVICES UCX_IB_GID_INDEX=$UCX_IB_GID_INDEX UCX_TLS=$UCX_TLS"
	both "tcp:$PORT" "$vars ucx_perftest -P 0 -p $PORT $SERVER_OPTIONS" \
		"ucx_perftest -P 0 -p $PORT $* $OXE_PEER_ADDR" &&
		! grep 'UCX  *ERROR' "$TMP/client" "$TMP/server" && carried "$count" "$out" "$in"
}
batch=/tmp/oxe-batch
for test in RC:4 UD:4 RC:6 UD:6; do
	way "${test%:*}" "${test#*:}"
	name="ucx_perftest, ${test%:*}, IPv${test#*:}"
	SERVER_OPTIONS=
	t "$name, a test" ucx 1000 -t tag_lat -n 1000
	[ "${test#*:}" = 4 ] || continue
	batch_of '' "${PROTOCOLS[@]}" >$batch
	t "$name: the batch is on both machines" timeout $((60 * SLOW)) \
		scp -q -o BatchMode=yes $batch oxe-server:$batch
	SERVER_OPTIONS="-b $batch -f -v -n 100 -w 5"
	t "$name: both ends end well" ucx 1000 "$SERVER_OPTIONS"
	batch_cases "$name" 100 "${PROTOCOLS[@]}"
done

# crashed: one end did, within libfabric, when its work was done. So programs by ofi_rxm do now and
# then (see users/mpi.rst).
crashed() { [ $CLIENT_STATUS = 139 ] || [ $SERVER_STATUS = 139 ]; }
# one_size OPTIONS SIZE ADDRESS: fi_pingpong; if it crashed, once more, up to twice.
one_size() {
	local attempt
	for attempt in 1 2 3; do
		PORT=$((PORT + 2))
		both "tcp:$PORT" "fi_pingpong $1 -S $2 -B $PORT" \
			"fi_pingpong $1 -S $2 -P $PORT $3" && pinged && return
		echo "attempt $attempt: status $CLIENT_STATUS, server $SERVER_STATUS"
		[[ $1 = *ofi_rxm* ]] && crashed || return 1
	done
	return 1
}
# ping VERSION ENDPOINT PROVIDER SIZE...: fi_pingpong of these sizes.
ping() {
	local version=$1 type=$2 provider=$3 domain=$DEV address=$OXE_PEER_ADDR size options out in
	shift 3
	[ "$type" != dgram ] || domain=$DEV-dgram
	options="-c -I 30 -p '$provider' -e $type -d $domain"
	[ "$version" = 4 ] || { address=$SIX_SERVER options="$options -6"; }
	for size in "$@"; do
		out=$(sent) in=$(received)
		one_size "$options" "$size" "$address" &&
			carried $((30 * (size / 1024 + 1))) "$out" "$in" || return 1
	done
}
# The kernel's log is for the kernel's reports, not for a process' crash.
quiet="echo 0 >/proc/sys/debug/exception-trace"
eval "$quiet" && server "$quiet"
SIZES="1 65537 1048576"
for version in 4 6; do
	# shellcheck disable=SC2086 # split on purpose
	for test in msg:verbs "rdm:verbs;ofi_rxm"; do
		t "libfabric, ${test%:*}, IPv$version, data compared" \
			ping $version "${test%:*}" "${test#*:}" $SIZES
	done
	t "libfabric, dgram, IPv$version, data compared" ping $version dgram verbs 1000
	SIZES=65537
done
t "the server ends" order quit
t "the device goes away" link_del $DEV
finish
