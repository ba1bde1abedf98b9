#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: Open MPI works over UCX, 2 and 8 processes, with every byte compared. pml and osc ucx, a
# program in Python (py/mpi.py): messages, collectives and one-sided operations up to 4 MiB; over
# rc_verbs, with shared receive queues, and ud_verbs, IPv4 and IPv6; on one device, and between two
# hosts. UCX has no other transport to choose (UCX_TLS), and each process looks for its queue pairs.
# vm: nightly=1 time=900
. "$(dirname "$0")/lib.sh"
. "$HERE/lib/mpi.sh"
command -v mpirun >/dev/null || skip_all "Open MPI is missing"
python3 -c 'import mpi4py' 2>/dev/null || skip_all "mpi4py is missing"
hosts_up

# For host B, mpirun starts its daemon by this instead of ssh: in the namespace of host B, under a
# hostname and in a directory of its own. The processes there take their device from it.
cat >"$TMP/agent" <<'T2'
#!/bin/bash
shift # the host's name: there is one
mkdir -p "$TMP/b"
export TMPDIR=$TMP/b DEV=$DEV_B UCX_NET_DEVICES=$DEV_B:1 UCX_IB_GID_INDEX=$GID_B
exec nsenter --net=/run/netns/oxt-b unshare --uts bash -c "hostname oxe-b; $*"
T2
chmod +x "$TMP/agent"
export TMP OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# mpi NAME QPTYPE VERSION RANKS HOSTS [PART...]: the program's cases become ours.
mpi() {
	local name=$1 type=$2 version=$3 ranks=$4 hosts=$5 status=0 options=()
	shift 5
	GID_B=$GID4_B
	export DEV=$DEV_A UCX_NET_DEVICES=$DEV_A:1 UCX_IB_GID_INDEX=$GID4_A GID_B
	[ "$version" = 4 ] || UCX_IB_GID_INDEX=$GID6_A GID_B=$GID6_B
	if [ "$hosts" = 2 ]; then
		options=(--host "$IP4_A:$((ranks / 2)),$IP4_B:$((ranks / 2))"
			--prtemca plm_ssh_agent "$TMP/agent" --map-by node)
	fi
	in_a timeout -k 5 $((LIMIT * SLOW)) mpirun -n "$ranks" --oversubscribe "${options[@]}" \
		--mca pml ucx --mca osc ucx -x UCX_TLS="$(tls_of "$type")" -x UCX_FENCE_MODE \
		python3 "$PY/mpi.py" $LARGEST "$type" "$@" >"$TMP/relay" 2>"$TMP/relay.err" || status=$?
	relay_mpi "$name" $status
}

# Many processes share two processors: they get smaller messages.
LIMIT=300
for type in RC UD; do
	LARGEST=$((4 << 20))
	mpi "$type, one device" $type 4 2 1 p2p coll rma
	mpi "$type, two hosts" $type 4 2 2 p2p coll rma
	LARGEST=65536
	mpi "$type, one device, IPv6" $type 6 2 1 p2p
	mpi "$type, two hosts, IPv6" $type 6 2 2 p2p rma
	mpi "$type, one device, 8 processes" $type 4 8 1 p2p coll rma
	mpi "$type, two hosts, 6 processes" $type 4 6 2 p2p coll
done
finish
