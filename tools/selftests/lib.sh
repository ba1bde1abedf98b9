# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The parts that every test script here shares: TAP output, two hosts on one wire, running a server
# and its client, and the check at the end that the kernel is as clean as before. Sourced, never
# run.
#
# A script sources this, calls hosts_up (unless it makes its own network), runs its cases with t,
# and ends with finish. Exit status: 0 all passed, 1 something failed, 4 everything was skipped.

set -u
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
export PATH=$PATH:/usr/sbin:/sbin

LINK_TYPE=${LINK_TYPE:-${OXE_TYPE:-oxe}}
OXE_MODULE=${OXE_MODULE:-/oxe/oxe.ko}
SELF=$(basename "$0" .sh)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PY="$HERE/py"
TMP=$(mktemp -d "/tmp/oxe-$SELF.XXXXXX")

# The two hosts: namespace, netdev, device, addresses.
NS_A=oxt-a NS_B=oxt-b
VETH_A=oxva VETH_B=oxvb
DEV_A=${LINK_TYPE}a DEV_B=${LINK_TYPE}b
IP4_A=10.77.0.1 IP4_B=10.77.0.2
IP6_A=fd77::1 IP6_B=fd77::2
export DEV_A DEV_B IP4_A IP4_B IP6_A IP6_B LINK_TYPE

# A kernel with its debugging on is several times slower; every time limit is stretched by this.
SLOW=1
[ ! -e /sys/kernel/debug/kmemleak ] || SLOW=5
export SLOW

# ---------------------------------------------------------------- TAP

COUNT=0 FAILED=0 SKIPPED=0 START=$SECONDS
# TAP lines go here, wherever a case sends its output; the demonstration wants none.
if [ "${TAP:-1}" = 0 ]; then exec 9>/dev/null; else exec 9>&1; fi

echo "TAP version 13" >&9

ok() { COUNT=$((COUNT + 1)); echo "ok $COUNT - $*" >&9; }
skip() { # NAME REASON
	COUNT=$((COUNT + 1)) SKIPPED=$((SKIPPED + 1))
	echo "ok $COUNT - $1 # SKIP $2" >&9
}
diag() { tr -d '\0' | awk '{ print "# " $0 }' >&9; }
# not_ok NAME [FILE]: the last lines of FILE go with it as diagnostics.
not_ok() {
	COUNT=$((COUNT + 1)) FAILED=$((FAILED + 1))
	echo "not ok $COUNT - $1" >&9
	[ -z "${2:-}" ] || tail -n 40 "$2" | diag
}

# t NAME COMMAND...: one case. The command's status decides: 0 passed, 4 skipped (its last line says
# why).
t() {
	local name=$1 log=$TMP/log status=0
	shift
	"$@" >"$log" 2>&1 </dev/null || status=$?
	case $status in
	0) ok "$name" ;;
	4) skip "$name" "$(tail -n 1 "$log")" ;;
	*)
		not_ok "$name" "$log"
		echo "# status $status of: $*" >&9
		;;
	esac
}

# fails PATTERN COMMAND...: succeeds if the command fails (but not by a signal or a time limit) and
# says PATTERN.
fails() {
	local pattern=$1 status=0 out
	shift
	out=$("$@" 2>&1) || status=$?
	echo "$out"
	if [ $status = 0 ]; then
		echo "this was to fail and did not: $*"
		return 1
	fi
	if [ $status -ge 124 ] && [ $status -lt 160 ]; then
		echo "ended with status $status: $*"
		return 1
	fi
	grep -qiE -- "$pattern" <<<"$out" || { echo "the message lacks '$pattern'"; return 1; }
}

# relay: the subtests of a case program ("ok NAME", "not ok NAME", "skip NAME # why", "# text" on
# stdin) become TAP of ours.
relay() {
	local line
	while IFS= read -r line; do
		case $line in
		"ok "*) ok "${line#ok }" ;;
		"not ok "*) not_ok "${line#not ok }" ;;
		"skip "*) line=${line#skip }; skip "${line%% # *}" "${line#* # }" ;;
		*) echo "# ${line#\# }" >&9 ;;
		esac
	done
}

# relay_py NAME ARGUMENT...: run py/NAME.py whose output is for relay; its exit status is a case,
# too.
relay_py() {
	local name=$1 status
	shift
	timeout -k 5 $(((LIMIT_PY) * SLOW)) python3 -u "$PY/$name.py" "$@" >"$TMP/relay" 2>"$TMP/relay.err"
	status=$?
	relay <"$TMP/relay"
	if [ $status = 0 ]; then
		ok "$name.py ran to its end"
	else
		not_ok "$name.py ran to its end (status $status)" "$TMP/relay.err"
	fi
}
LIMIT_PY=600

# ---------------------------------------------------------------- waiting

# poll SECONDS COMMAND...: until the command succeeds; fails when the time is over. The limits are
# far above the usual time, for a machine that is busy with other work: only a command that never
# succeeds takes that long.
poll() {
	local end=$((SECONDS + $1 * SLOW))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "waited in vain for: $*"; return 1; }
		sleep 0.1
	done
}

# ---------------------------------------------------------------- hosts

in_a() { nsenter --net=/run/netns/$NS_A "$@"; }
in_b() { nsenter --net=/run/netns/$NS_B "$@"; }

# net_up [MTU]: two namespaces, a veth pair between, addresses on both ends.
net_up() {
	local mtu=${1:-1500} ns veth v4 v6
	net_down
	ip netns add $NS_A && ip netns add $NS_B || return 1
	ip link add $VETH_A mtu "$mtu" netns $NS_A \
		type veth peer name $VETH_B mtu "$mtu" netns $NS_B || return 1
	for ns in "$NS_A $VETH_A $IP4_A $IP6_A" "$NS_B $VETH_B $IP4_B $IP6_B"; do
		# shellcheck disable=SC2086 # split on purpose
		set -- $ns
		ns=$1 veth=$2 v4=$3 v6=$4
		ip -n "$ns" -b - <<-T || return 1
			link set lo up
			link set $veth up
			addr add $v4/24 dev $veth
			addr add $v6/64 dev $veth nodad
		T
	done
	acquainted || return 1
	# A process in each namespace, through which its /proc/net files are read cheaply.
	nsenter --net=/run/netns/$NS_A sleep 100000 9>&- & HOLD_A=$!
	nsenter --net=/run/netns/$NS_B sleep 100000 9>&- & HOLD_B=$!
}

# acquainted: the hosts know each other's Ethernet addresses for good. ib_core gives a second to
# find one, which a busy machine or one lost solicitation uses up. (Other addresses than these are
# found in the usual way.)
acquainted() {
	local mac_a mac_b address
	mac_a=$(ip -n $NS_A link show $VETH_A | awk '/link.ether/ { print $2 }')
	mac_b=$(ip -n $NS_B link show $VETH_B | awk '/link.ether/ { print $2 }')
	for address in $IP4_B $IP6_B; do
		ip -n $NS_A neigh replace $address lladdr "$mac_b" dev $VETH_A nud permanent || return 1
	done
	for address in $IP4_A $IP6_A; do
		ip -n $NS_B neigh replace $address lladdr "$mac_a" dev $VETH_B nud permanent || return 1
	done
}

net_down() {
	local ns pids
	for ns in $NS_A $NS_B; do
		[ -e /run/netns/$ns ] || continue
		pids=$(ip netns pids $ns) && [ -z "$pids" ] || kill -9 $pids 2>/dev/null
		ip netns del $ns
	done
	[ -z "${HOLD_A:-}" ] || wait "$HOLD_A" "$HOLD_B" 2>/dev/null
	HOLD_A='' HOLD_B=''
	return 0
}

# The link type's module is loaded; the VM does that before the tests, another machine may not have
# done it.
need_module() {
	local name=oxe
	[ "$LINK_TYPE" != rxe ] || [ -n "${OXE_COMPAT:-}" ] || name=rdma_rxe
	[ ! -d /sys/module/$name ] || return 0
	module_load
}
# shellcheck disable=SC2120 # the parameters are some callers' business
module_load() { # PARAMETER...
	if [ "$LINK_TYPE" = rxe ]; then
		modprobe rdma_rxe
	else
		# shellcheck disable=SC2086 # split on purpose
		insmod "$OXE_MODULE" ${OXE_PARAMS:-} "$@"
	fi
}
module_unload() {
	if [ "$LINK_TYPE" = rxe ]; then rmmod rdma_rxe; else rmmod oxe; fi
}

link_add() { # DEVICE NETDEV [NAMESPACE]
	${3:+nsenter --net=/run/netns/$3} rdma link add "$1" type "$LINK_TYPE" netdev "$2"
}
link_del() { rdma link del "$1"; }

# links_up: a device on each host; waits until every address has its GID and the counts of objects
# in use are known.
links_up() {
	need_module || return 1
	link_add $DEV_A $VETH_A $NS_A && link_add $DEV_B $VETH_B $NS_B || return 1
	GID4_A=$(wait_gid $DEV_A $IP4_A) && GID4_B=$(wait_gid $DEV_B $IP4_B) &&
		GID6_A=$(wait_gid $DEV_A $IP6_A) && GID6_B=$(wait_gid $DEV_B $IP6_B) || return 1
	export GID4_A GID4_B GID6_A GID6_B
	BASELINE=$(resources)
}
links_down() {
	local dev
	for dev in $DEV_A $DEV_B; do
		[ ! -d /sys/class/infiniband/$dev ] || link_del $dev
	done
}

# hosts_up [MTU]: the common beginning of a script. Without it nothing can be tested, so a failure
# ends the script.
hosts_up() {
	if ! { net_up "${1:-1500}" && links_up; } >"$TMP/log" 2>&1; then
		not_ok "two hosts with a $LINK_TYPE device each" "$TMP/log"
		finish
	fi
}
hosts_down() { links_down; net_down; }

# gid_of ADDRESS: as sysfs writes the GID of an IPv4 or IPv6 address (which may hold one ::).
gid_of() {
	local -a part left right
	local i
	if [[ $1 == *.* ]]; then
		IFS=. read -ra part <<<"$1"
		printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "${part[@]}"
		return
	fi
	IFS=: read -ra left <<<"${1%%::*}"
	right=()
	[[ $1 != *::* ]] || IFS=: read -ra right <<<"${1##*::}"
	part=("${left[@]}")
	for ((i = ${#left[@]} + ${#right[@]}; i < 8; i++)); do part+=(0); done
	part+=("${right[@]}")
	printf '%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x\n' "${part[@]/#/0x}"
}
# gid_index DEVICE ADDRESS: index of its RoCE v2 GID, or failure. The first hundred places are
# looked at.
gid_index() {
	local want file port=/sys/class/infiniband/$1/ports/1
	want=$(gid_of "$2")
	for file in $(grep -lsx "$want" $port/gids/? $port/gids/??); do
		[ "$(cat $port/gid_attrs/types/"${file##*/}" 2>/dev/null)" = "RoCE v2" ] || continue
		echo "${file##*/}"
		return
	done
	return 1
}
wait_gid() {
	poll 60 gid_index "$1" "$2" >&2 || return 1
	gid_index "$1" "$2"
}

port_attr() { cat "/sys/class/infiniband/$1/ports/1/$2"; }

# ---------------------------------------------------------------- a server and its client

. "$HERE/lib/pair.sh"

# kill_wait PID...: end these and reap them.
kill_wait() { kill -9 "$@" 2>/dev/null; wait "$@" 2>/dev/null; return 0; }

# ---------------------------------------------------------------- what is left behind

# resources: how many objects each device holds, as text; the MAD layer's own belong to the
# baseline.
resources() { rdma resource show 2>/dev/null | sed 's/^[0-9]*: //' | sort; }
# Context counts are of no use here (a dead process' context goes with a delay of its own), objects
# are.
resources_back() { [ "$(resources)" = "$BASELINE" ]; }

# In the machine, and in the checkout: OXE_REPORTS, what a sound kernel never writes into its log.
for reports in "$HERE/../reports.sh" "$HERE/../../scripts/run/reports.sh"; do
	# shellcheck disable=SC1090 # one of these two
	[ ! -e "$reports" ] || . "$reports"
done

# The kernel's log since this script began, without reports of the kernel itself that the script's
# "# vm: known=WORD" names.
KNOWN=$(sed -n 's/^# vm:.*[ \t]known=\([^ ]*\).*/\1/p' "$0" | head -n 1)
kernel_log() {
	dmesg | sed "1,/oxe-selftest $MARK/d" | awk -v known="${KNOWN:-^$}" -f "$HERE/known.awk"
}
MARK="$SELF $$ begins"
echo "oxe-selftest $MARK" >/dev/kmsg

no_reports() {
	local log=$TMP/dmesg
	kernel_log >"$log"
	if grep -qE "$OXE_REPORTS" "$log"; then
		grep -nE -m 5 "$OXE_REPORTS" "$log"
		grep -E -m 1 -B 3 -A 45 "$OXE_REPORTS" "$log"
		return 1
	fi
}
nothing_left() {
	rm -f "$TMP/res"
	[ -n "${BASELINE:-}" ] && [ -d /sys/class/infiniband/$DEV_A ] &&
		[ -d /sys/class/infiniband/$DEV_B ] || return 0
	poll 60 resources_back && return
	echo "expected:"; echo "$BASELINE"; echo "found:"; resources
	rdma resource show qp; rdma resource show cm_id; rdma resource show mr
	return 1
}
no_devices() { [ -z "$(rdma resource show 2>/dev/null)" ]; }
# ib_core itself loses nodes of its table of methods (uverbs_alloc_api) when an allocation for that
# table fails: those do not count.
kmemleak_clean() {
	local file=/sys/kernel/debug/kmemleak leaks=$TMP/kmemleak
	[ -e $file ] || { echo "kernel without kmemleak"; return 4; }
	# An object counts as leaked once it is unreferenced in a scan some seconds after its
	# allocation.
	sleep 6
	echo scan >$file
	echo scan >$file
	awk 'function judge() {
			if (object !~ /radix_tree_node_alloc.*uverbs_alloc_api/) printf "%s", object
			object = ""
		}
		/^unreferenced/ { judge() }
		{ object = object $0 "\n" }
		END { judge() }' $file >"$leaks"
	echo clear >$file
	[ ! -s "$leaks" ] || { cat "$leaks"; return 1; }
}

# finish: everything is taken down, the state of the kernel judged, the plan printed.
finish() {
	t "no object is left on the devices" nothing_left
	t "devices and hosts go away" hosts_down
	t "no device is left" poll 60 no_devices
	t "the kernel log holds no report" no_reports
	if [ -e /sys/kernel/debug/kmemleak ]; then
		t "kmemleak finds nothing" kmemleak_clean
	fi
	echo "1..$COUNT" >&9
	echo "# $SELF: $((COUNT - FAILED - SKIPPED)) passed, $FAILED failed, $SKIPPED skipped," \
		"$((SECONDS - START)) s" >&9
	[ $FAILED = 0 ] || leave 1
	leave 0
}
# leave STATUS: end here, on purpose.
leave() {
	FINISHED=1
	exit "$1"
}

# skip_all REASON: the whole subject does not apply here.
skip_all() {
	echo "1..0 # SKIP $*" >&9
	leave 4
}

# faults_ready: every allocation that a caller could see fail may fail, not only the atomic ones;
# pages of any order; user copies.
faults_ready() {
	local debug=/sys/kernel/debug file
	[ -e /proc/self/fail-nth ] || skip_all "the kernel has no fault injection (the debug kernel has)"
	for file in failslab/ignore-gfp-wait fail_page_alloc/ignore-gfp-wait fail_page_alloc/min-order; do
		[ ! -e $debug/$file ] || echo 0 >$debug/$file
	done
	# Silent: a stack trace for each of thousands of injected faults is of no use.
	for file in $debug/fail*/verbose; do
		[ ! -e "$file" ] || echo 0 >"$file"
	done
}

# When a script ends, for any reason, it leaves no process, namespace, device or file behind.
at_exit() {
	local status=$? pids
	if [ -z "${FINISHED:-}" ]; then
		echo "Bail out! $SELF ended early (status $status)" >&9
		[ $status != 0 ] || status=1
	fi
	pids=$(jobs -p)
	[ -z "$pids" ] || kill -9 $pids 2>/dev/null
	hosts_down >/dev/null 2>&1
	rm -rf "$TMP"
	exit $status
}
FINISHED=''
trap at_exit EXIT
trap 'exit 130' INT TERM HUP
