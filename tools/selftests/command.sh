#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: oxe status and oxe why say what is wrong. Each state is made, and the exact sentence, its
# remedy and the exit status are seen: the module, devices, netdevs, addresses, the firewall,
# namespaces, limits; and for queue pairs and counters those that py/command.py makes.
. "$(dirname "$0")/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the command is built for x86-64 alone"
[ "$LINK_TYPE" = oxe ] || skip_all "the command is about oxe"
D=oxe0

# says STATUS SENTENCE REMEDY COMMAND...: the command ends so, and has this problem and its remedy.
says() {
	local want=$1 sentence=$2 remedy=$3 status=0 out
	shift 3
	out=$("$@" 2>&1) || status=$?
	echo "$out"
	[ $status = "$want" ] || { echo "status $status, not $want"; return 1; }
	grep -qxF -A 1 "problem: $sentence" <<<"$out" || { echo "lacks: $sentence"; return 1; }
	grep -xF -A 1 "problem: $sentence" <<<"$out" | grep -qxF "    $remedy" ||
		{ echo "lacks: $remedy"; return 1; }
}
# well LINE COMMAND...: nothing is wrong, and the output has the line.
well() {
	local line=$1 out
	shift
	out=$("$@" 2>&1) || { echo "status $?: $out"; return 1; }
	echo "$out"
	! grep -q ^problem <<<"$out" && grep -qxF "$line" <<<"$out"
}

# ---------------------------------------------------------------- the module
kernel=$(uname -r)
modules=/lib/modules/$kernel
not_installed() {
	rmmod oxe && says 1 "The module oxe is not installed for this kernel ($kernel)." \
		"Install it: Documentation/install.rst has the ways." oxe status
}
for_another() {
	mkdir -p /lib/modules/7.9.9-other/updates
	cp "$OXE_MODULE" /lib/modules/7.9.9-other/updates/
	says 1 "The module oxe is not installed for this kernel ($kernel), but for 7.9.9-other." \
		"Boot that kernel, or install oxe for $kernel." oxe status || return
	rm -r /lib/modules/7.9.9-other
}
# The machine's own directory of modules is read-only.
t_modules() { mount -t tmpfs none "$modules" && "$@" && umount "$modules"; }
# The version of a kernel that there is not, in the module's file: the kernel refuses it.
built_for_another() {
	local other=9${kernel#?}
	sed "s/vermagic=$kernel/vermagic=$other/" "$OXE_MODULE" >"$modules/oxe.ko"
	fails "Invalid module format" insmod "$modules/oxe.ko" || return
	says 1 "The module oxe of this kernel ($kernel) was built for $other." \
		"Install oxe for $kernel: Documentation/install.rst has the ways." oxe status
}
not_loaded() {
	cp "$OXE_MODULE" "$modules/oxe.ko"
	says 1 "The module oxe is not loaded." "modprobe oxe" oxe status
}
beside_rxe() {
	modprobe -q rdma_rxe || { echo "this kernel has no rdma_rxe"; return 4; }
	says 1 "rdma_rxe is loaded, and oxe cannot be loaded beside it." "modprobe -r rdma_rxe" \
		oxe status || return
	rmmod rdma_rxe
}
t "the module is not installed" not_installed
t "the module is installed for another kernel" for_another
t "the module was built for another kernel" t_modules built_for_another
t "the module is not loaded" t_modules not_loaded
t "rdma_rxe is loaded" beside_rxe
module_load

# ---------------------------------------------------------------- devices and netdevs
no_netdev() {
	local made
	# A kernel that has these built in has made one of each.
	for made in bond0 dummy0; do
		! ip link show $made >/dev/null 2>&1 || ip link delete $made
	done
	says 1 "oxe has no device, and this network namespace no Ethernet-like netdev." \
		"rdma link add oxe0 type oxe netdev lo (for programs of this machine alone)" \
		oxe status
}
no_device() {
	ip link add x0 type veth peer name x1
	says 1 "oxe is loaded, and has no device." "rdma link add oxe0 type oxe netdev x0" \
		oxe status
}
port_taken() {
	python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 4791))
time.sleep(600)' &
	local holder=$! status=0
	poll 60 grep -q ":12B7 " /proc/net/udp
	fails "in use" link_add $D x0 || status=1
	says 1 "oxe has no device, and a program has UDP port 4791, which a device needs." \
		"ss -ulnp 'sport = :4791' names it: end it." oxe status || status=1
	kill_wait $holder
	return $status
}
netdev_down() {
	link_add $D x0 || return
	says 1 "x0, the netdev of oxe0, is down." "ip link set x0 up" oxe status
}
no_carrier() {
	ip link set x0 up
	says 1 "x0, the netdev of oxe0, has no carrier." \
		"See to its cable, or to the other end: ip -d link show x0" oxe status
}
no_address() {
	ip link set x1 up
	says 1 "x0, the netdev of oxe0, has no address but link-local ones." \
		"ip addr add ADDRESS/LENGTH dev x0" oxe status
}
is_active() { port_attr $D state | grep -q ACTIVE; }
nothing_wrong() {
	ip addr add 10.9.9.1/24 dev x0 && wait_gid $D 10.9.9.1 && poll 60 is_active || return
	well "Nothing is wrong." oxe status
}
# What a script reads: keys, and that no problem is an empty list.
as_json() {
	oxe -j status | python3 -c 'import json, sys
found = json.load(sys.stdin)
assert found["problems"] == [], found
device = found["devices"][0]
wanted = {"name": "oxe0", "netdev": "x0", "state": "ACTIVE", "mtu": 1500, "path_mtu": 1024}
assert wanted.items() <= device.items() and device["is_oxe"], device' || return
	oxe -j gids $D | python3 -c 'import json, sys
gids = json.load(sys.stdin)["gids"]["oxe0"]
assert any(g["address"] == "10.9.9.1" and g["netdev"] == "x0" for g in gids), gids'
}
t "no netdev" no_netdev
t "no device" no_device
t "a program has the port" port_taken
t "the netdev is down" netdev_down
t "the netdev has no carrier" no_carrier
t "the netdev has no address" no_address
t "nothing is wrong" nothing_wrong
t "JSON" as_json
t "an unknown device" fails "there is no RDMA device nix" oxe gids nix
t "a wrong command line" fails "unrecognized subcommand" oxe nix

# ---------------------------------------------------------------- what keeps packets out
closed() {
	nft add table inet f
	nft add chain inet f in '{ type filter hook input priority 0; policy drop; }'
	local text="The firewall drops what peers send: no rule of chain in in table inet f accepts"
	says 1 "$text UDP port 4791." \
		"nft insert rule inet f in udp dport 4791 accept" oxe status
}
# The remedy is run as it stands.
opened() {
	eval "$(oxe status | sed -n 's/^    \(nft insert .*\)/\1/p')" || return
	well "Firewall: a rule accepts UDP port 4791." oxe status || return
	nft delete table inet f
	well "Firewall: no rule drops what comes in." oxe status
}
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
memlock() {
	local text="Programs of this user may lock 64 kB of memory; memory regions and queues"
	says 1 "$text need more." \
		"ulimit -l unlimited, or a file in /etc/security/limits.d: * - memlock unlimited" \
		as_nobody bash -c 'ulimit -l 64; oxe status' || return
	well "Firewall: unknown: reading the rules needs root." \
		as_nobody bash -c 'ulimit -l 65536; oxe status'
}
no_files() {
	local status=0
	mv /dev/infiniband /dev/infiniband.away
	says 1 "There is no /dev/infiniband/uverbs*, by which programs use a device." \
		"modprobe ib_uverbs" oxe status &&
		says 1 "There is no /dev/infiniband/rdma_cm, by which programs connect." \
			"modprobe rdma_ucm" oxe status || status=1
	mv /dev/infiniband.away /dev/infiniband
	return $status
}
t "the firewall drops" closed
t "the firewall accepts" opened
t "the limit of locked memory" memlock
t "no files of devices" no_files

# ---------------------------------------------------------------- namespaces
elsewhere() {
	says 1 "The netdev of oxe0 is of another network namespace." \
		"Use oxe0 there, or by the GIDs of this namespace: oxe gids oxe0" \
		ip netns exec nsx oxe status
}
# The mode changes while there is no other namespace alone.
exclusive() {
	link_del $D && ip netns del nsx && poll 60 rdma system set netns exclusive || return
	ip netns add nsx && link_add $D x0 || return
	local text="This network namespace has no device of oxe: each RDMA device is of one"
	local shared="rdma system set netns shared"
	says 1 "$text namespace alone (rdma system)." \
		"rdma dev set DEVICE netns NAME, or for all namespaces: $shared" \
		ip netns exec nsx oxe status
}
shared_again() { link_del $D && ip netns del nsx && poll 60 rdma system set netns shared; }
ip netns add nsx
t "the netdev is of another namespace" elsewhere
t "devices are of one namespace" exclusive
t "shared mode" shared_again
ip link del x0

# ---------------------------------------------------------------- queue pairs and counters
hosts_up 1500
t "oxe why: nothing" well "No queue pair has failed, and no counter of an error has moved." oxe why
export NS_A VETH_A
relay_py command
masked() {
	local out
	# An address that is in it, and a problem of the counters: status 1.
	out=$(oxe report) && { echo "no problem"; return 1; }
	grep -qw $IP4_A <<<"$out" && grep -q '^# Kernel log' <<<"$out" || { echo "$out"; return 1; }
	out=$(oxe report --mask; oxe -j report --mask)
	! grep -wE "$IP4_A|$IP6_A" <<<"$out" && grep -q "address-[0-9]" <<<"$out"
}
t "oxe report, with and without addresses" masked

# ---------------------------------------------------------------- the last: it cannot be undone
unsigned() {
	local enforce=/sys/module/module/parameters/sig_enforce
	[ -e $enforce ] || { echo "this kernel knows no signatures"; return 4; }
	links_down && rmmod oxe && echo Y >$enforce || return
	cp "$OXE_MODULE" "$modules/oxe.ko"
	fails "Key was rejected" insmod "$modules/oxe.ko" || return
	local steps="Documentation/install.rst has the steps."
	says 1 "The kernel loads signed modules alone (Secure Boot), and oxe's is not signed." \
		"Sign it with a key that the firmware knows: $steps" \
		oxe status
}
t "the kernel takes signed modules alone" t_modules unsigned
finish
