#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# device: a device is made on each Ethernet-like netdev, follows it, and goes with it. Refused on
# others; GUID, state and MTU follow the netdev; it goes with its netdev, its namespace and its
# module; rdma_rxe and it exclude each other.
# vm: time=900
. "$(dirname "$0")/lib.sh"
D=${LINK_TYPE}0
need_module || skip_all "the module cannot be loaded"

# No hosts here: each case makes its netdevs. on NETDEV: a device can be made there, works, and goes
# away.
clear_all() {
	local name
	[ ! -d /sys/class/infiniband/$D ] || link_del $D
	for name in x0 x1 x2 br0 bo0 du0 tn0 st0 mv0 iv0; do
		[ ! -d /sys/class/net/$name ] || ip link del $name 2>/dev/null
	done
	return 0
}
on() {
	link_add $D "$1" || return 1
	ibv_devinfo -d $D | grep -q "link_layer:.*Ethernet" || { ibv_devinfo -d $D; return 1; }
	rdma link show $D/1 | grep -q "netdev $1 " || { rdma link show; return 1; }
	link_del $D && [ ! -d /sys/class/infiniband/$D ]
}
state_is() { port_attr $D state | grep -q "$1"; }
mtu_is() { ibv_devinfo -d $D | grep -qE "active_mtu:[[:space:]]+$1 "; }
veth() { ip link add x0 type veth peer name x1 && ip link set x0 up && ip link set x1 up; }

t_veth() { veth && on x0; }
t_dummy() { modprobe -q dummy; ip link add du0 type dummy && ip link set du0 up && on du0; }
t_bridge() {
	modprobe -q bridge
	veth && ip link add br0 type bridge && ip link set x0 master br0 && ip link set br0 up && on br0
}
t_bond() {
	modprobe -q bonding
	ip link add bo0 type bond mode active-backup || { echo "the kernel has no bonds"; return 4; }
	ip link set bo0 up && on bo0
}
t_macvlan() {
	modprobe -q macvlan
	veth || return 1
	ip link add link x0 name mv0 type macvlan mode bridge ||
		{ echo "the kernel has no macvlan"; return 4; }
	ip link set mv0 up && on mv0
}
for kind in veth dummy bridge bond macvlan; do
	t "a device on a $kind" t_$kind
	clear_all
done

# Who it is, by what programs read: vendor and part, the version, the netdev.
info_is() { ibv_devinfo -v -d $D | grep -qE "^[[:space:]]+$1:[[:space:]]+$2\$" ||
	{ ibv_devinfo -v -d $D | grep -E "vendor|fw_ver"; return 1; }; }
identity() { # VENDOR PART
	info_is vendor_id "$1" && info_is vendor_part_id "$2" &&
		[ "$(cat /sys/class/infiniband/$D/parent)" = x0 ] &&
		[ "$(cat /sys/class/infiniband/$D/fw_ver)" = "$(ibv_devinfo -d $D | awk '$1 == "fw_ver:" { print $2 }')" ]
}
t_identity() {
	local version
	version=$(cat /sys/module/oxe/version)
	veth && link_add $D x0 && identity 0x26f78 1 && info_is fw_ver "$version\.0" &&
		ip link set x0 down && ip link set x0 name x2 &&
		[ "$(cat /sys/class/infiniband/$D/parent)" = x2 ]
}
t "vendor, part, version and parent" t_identity
clear_all

# Errors, and that none of them leaves anything.
t "no device on a netdev that does not exist" \
	fails "No such device|ENODEV|does not exist|Invalid" link_add $D nosuch0
# Devices without Ethernet; the RDMA core sees their addresses when the device is made, and oxe has it
# look again.
on_ip() { # NETDEV: a device on it, which gets the GID of an address that comes later
	ip link set "$1" up && link_add $D "$1" && ip addr add 10.98.0.1/32 dev "$1" || return 1
	[ "$LINK_TYPE" = rxe ] || wait_gid $D 10.98.0.1 || return 1
	ip addr del 10.98.0.1/32 dev "$1" && link_del $D
}
t "a device on lo" on_ip lo
t_tun() {
	modprobe -q tun
	[ -e /dev/net/tun ] || { echo "the kernel has no tun"; return 4; }
	ip tuntap add dev tn0 mode tun && on_ip tn0 && ip link del tn0
}
t "a device on a tun" t_tun
t_sit() {
	modprobe -q sit
	ip link add st0 type sit local 10.9.9.1 remote 10.9.9.2 ||
		{ echo "the kernel has no sit"; return 4; }
	on_ip st0 && ip link del st0
}
t "a device on a sit tunnel" t_sit
t_vlan() {
	modprobe -q 8021q
	veth && ip link add link x0 name x0.3 type vlan id 3 && ip link set x0.3 up &&
		fails "Invalid argument|not permitted" link_add $D x0.3
}
t "no device on a VLAN" t_vlan
clear_all
t_can() {
	modprobe -q vcan
	ip link add cn0 type vcan || { echo "the kernel has no vcan"; return 4; }
	ip link set cn0 up && fails "Invalid argument|not supported" link_add $D cn0 && ip link del cn0
}
[ "$LINK_TYPE" = rxe ] || t "no device on a netdev that carries no IP" t_can
clear_all
t_twice() {
	veth && link_add $D x0 && fails "File exists|exist" link_add ${D}b x0 &&
		[ ! -d /sys/class/infiniband/${D}b ] && link_del $D
}
t "no second device on a netdev" t_twice
clear_all
# ENFILE is what ib_core answers to a name that is taken.
t_same_name() {
	veth && link_add $D x0 && fails "exist|Too many open files" link_add $D x1 &&
		state_is ACTIVE && link_del $D
}
t "no second device of a name" t_same_name
clear_all
t "no device is deleted that does not exist" \
	fails "No such device|ENODEV|Invalid|Wrong" link_del nosuch
t_bad_type() {
	veth && fails "Invalid|not supported|No such|Wrong" \
		rdma link add $D type nosuchtype netdev x0
}
t "no device of an unknown type" t_bad_type
clear_all

# The attributes that the device takes from its netdev.
t_guid() {
	local guid
	ip link add x0 address 02:11:22:33:44:55 type veth peer name x1 && ip link set x0 up &&
		ip link set x1 up && link_add $D x0 || return 1
	guid=$(cat /sys/class/infiniband/$D/node_guid)
	echo "node GUID $guid"
	# IEEE: the MAC in two halves around ff:fe, the universal bit inverted.
	[ "$guid" = 0011:22ff:fe33:4455 ] && link_del $D
}
t "the node GUID is made of the MAC" t_guid
clear_all
t_state() {
	veth && link_add $D x0 && poll 60 state_is ACTIVE || return 1
	ip link set x0 down && poll 60 state_is DOWN &&
		ip link set x0 up && poll 60 state_is ACTIVE || return 1
	ip link set x1 down && poll 60 state_is DOWN && ip link set x1 up && poll 60 state_is ACTIVE
}
t "the port goes down and up with the netdev and its carrier" t_state
clear_all
t_mtu() {
	local pair
	veth && link_add $D x0 || return 1
	for pair in 1500:1024 9000:4096 4200:4096 2200:2048 700:512 400:256 1500:1024; do
		ip link set x0 mtu "${pair%:*}"
		poll 60 mtu_is "${pair#*:}" || { echo "netdev MTU ${pair%:*}"; ibv_devinfo -d $D; return 1; }
	done
}
t "the active MTU follows the netdev's" t_mtu
clear_all
t_events() {
	local pid status=0
	veth && link_add $D x0 && poll 60 state_is ACTIVE || return 1
	stdbuf -oL ibv_asyncwatch -d $D >"$TMP/events" 2>&1 9>&- &
	pid=$!
	poll 60 grep -q "async event" "$TMP/events"
	ip link set x0 down
	poll 60 grep -qiE "port error|PORT_ERR" "$TMP/events" || status=1
	ip link set x0 up
	poll 60 grep -qiE "port active|PORT_ACTIVE" "$TMP/events" || status=1
	ip link set x0 mtu 4200 && ip link set x0 address 02:00:00:00:00:77 || status=1
	kill_wait $pid
	cat "$TMP/events"
	return $status
}
t "programs hear of a port that goes down and up" t_events
clear_all
t_address() {
	veth && link_add $D x0 && ip addr add 10.8.8.8/24 dev x0 && wait_gid $D 10.8.8.8 || return 1
	ip link set x0 address 02:00:00:00:00:99 && state_is ACTIVE && gid_index $D 10.8.8.8 || return 1
	ip addr del 10.8.8.8/24 dev x0 && poll 60 eval '! gid_index $D 10.8.8.8'
}
t "GIDs come and go with addresses, and outlive a change of the MAC" t_address
clear_all
t_rename() {
	veth && link_add $D x0 && ip link set x0 down && ip link set x0 name x2 && ip link set x2 up &&
		poll 60 state_is ACTIVE && rdma link show $D/1 | grep -q "netdev x2" && link_del $D
}
t "the netdev may change its name" t_rename
clear_all

# The ends of a device.
gone() { [ ! -d /sys/class/infiniband/$D ]; }
t_netdev_removed() { veth && link_add $D x0 && ip link del x0 && poll 60 gone; }
t "the device goes with its netdev" t_netdev_removed
clear_all
t_ns_removed() {
	ip netns add oxt-l && ip link add x0 netns oxt-l type veth peer name x1 netns oxt-l &&
		ip -n oxt-l link set x0 up && link_add $D x0 oxt-l || return 1
	ip netns del oxt-l && poll 60 gone
}
t "the device goes with its namespace" t_ns_removed
clear_all
t_ns_moved() {
	# A netdev that moves to another namespace leaves this one, and the device goes as if it
	# were removed.
	veth && link_add $D x0 && ip netns add oxt-l && ip link set x0 netns oxt-l &&
		ip -n oxt-l link set x0 up || return 1
	poll 60 gone && ip netns del oxt-l
}
t "the netdev moves to another namespace" t_ns_moved
clear_all

# The netdev moves before, while, or after its device is made: in none of these cases is there a
# device at the end. The delays cover the time that it takes.
t_ns_moved_early() {
	local i pid late=0
	for i in 00 02 04 06 08 10 15 20 30 40 60 80; do
		veth && ip netns add oxt-l || return 1
		link_add $D x0 >"$TMP/add" 2>&1 &
		pid=$!
		sleep .$i
		ip link set x0 netns oxt-l || return 1
		wait $pid && late=$((late + 1)) || cat "$TMP/add"
		poll 60 gone || { echo "moved after .$i s"; rdma link show; return 1; }
		ip netns del oxt-l
		clear_all
	done
	echo "made, and then gone: $late of 12"
}
t "the netdev moves to another namespace while its device is made" t_ns_moved_early
ip netns del oxt-l 2>/dev/null
clear_all

# Many times over; fewer where each time takes seconds, or time is short.
ROUNDS=$(($([ -z "${SHORT:-}" ] && echo 100 || echo 20) / SLOW))
t_many_links() {
	local i
	veth || return 1
	for i in $(seq $ROUNDS); do link_add $D x0 && link_del $D || { echo "round $i"; return 1; }; done
}
t "made and deleted $ROUNDS times" t_many_links
clear_all
# Both ends of a device at once: one of them finds it gone, or being made to go.
t_both_ways() {
	local i pid
	for i in $(seq $ROUNDS); do
		veth && link_add $D x0 || return 1
		link_del $D & pid=$!
		sleep .00$((i % 8))
		ip link del x0 || { echo "round $i: the netdev"; return 1; }
		wait $pid || echo "round $i: the netdev was faster"
		poll 60 gone || { echo "round $i"; return 1; }
	done
}
t "deleted, and its netdev at the same time, $ROUNDS times" t_both_ways
clear_all
t_two_in_ns() {
	local i
	for i in $(seq $((ROUNDS / 2))); do
		ip netns add oxt-l && ip link add x0 netns oxt-l type veth peer name x1 netns oxt-l &&
			ip -n oxt-l link set x0 up && ip -n oxt-l link set x1 up &&
			link_add $D x0 oxt-l && link_add ${D}b x1 oxt-l && ip netns del oxt-l &&
			poll 60 gone && poll 60 gone_b || { echo "round $i"; return 1; }
	done
}
gone_b() { [ ! -d /sys/class/infiniband/${D}b ]; }
t "a namespace with two devices removed $((ROUNDS / 2)) times" t_two_in_ns
ip netns del oxt-l 2>/dev/null
clear_all
t_many_ns() {
	local i
	for i in $(seq $ROUNDS); do
		ip netns add oxt-l && ip link add x0 netns oxt-l type veth peer name x1 netns oxt-l &&
			ip -n oxt-l link set x0 up && link_add $D x0 oxt-l && ip netns del oxt-l &&
			poll 60 gone || { echo "round $i"; return 1; }
	done
}
t "its namespace removed $ROUNDS times" t_many_ns
ip netns del oxt-l 2>/dev/null
clear_all
t_many_modules() {
	local i
	veth || return 1
	for i in $(seq $ROUNDS); do
		# Every other time with a device: the module's end is the device's too.
		module_unload && module_load || { echo "round $i"; return 1; }
		[ $((i % 2)) = 0 ] || link_add $D x0 || { echo "round $i"; return 1; }
	done
	poll 60 eval 'module_unload' && module_load
}
t "the module unloaded and loaded $ROUNDS times, with and without a device" t_many_modules
clear_all

if [ "$LINK_TYPE" = oxe ]; then
	# logged TEXT: the kernel log has this of the module since its last mark.
	logged() {
		kernel_log | sed '0,/a test looks at the log/d' | grep -F "oxe: $1" ||
			{ echo "no line: $1"; kernel_log | tail -n 5; return 1; }
	}
	t_logged() {
		veth && echo "a test looks at the log" >/dev/kmsg && link_add $D x0 || return 1
		fails exist link_add ${D}b x0
		fails "" link_add $D x1
		ip link add link x0 name x0.3 type vlan id 3 && ip link set x0.3 up || return 1
		fails "" link_add ${D}c x0.3
		logged "$D: on x0, MTU 1500, path MTU 1024, sends super-packets (UDP GSO)" &&
			logged "${D}b: not made: x0 has a device already" &&
			logged "$D: not made: a device has that name" &&
			logged "${D}c: not made: x0.3 is a VLAN, whose addresses a device on x0 serves" &&
			link_del $D
	}
	t "the kernel log says what was made, and why nothing was" t_logged
	clear_all
	said() { kernel_log | grep -iE "oxe.*rdma_rxe|rdma_rxe.*oxe"; }
	has_rxe() { modinfo rdma_rxe >/dev/null 2>&1 || { echo "this kernel has no rdma_rxe"; return 4; }; }
	t_no_rxe() { has_rxe || return; fails "" modprobe rdma_rxe && [ ! -d /sys/module/rdma_rxe ] && said; }
	t "rdma_rxe is not loaded beside oxe, and the kernel log says why" t_no_rxe
	t_no_oxe() {
		local status=0 before
		has_rxe || return
		module_unload && modprobe rdma_rxe || return 1
		before=$(said | wc -l)
		fails "" insmod "$OXE_MODULE" && [ ! -d /sys/module/oxe ] &&
			[ "$(said | wc -l)" -gt "$before" ] || status=1
		rmmod rdma_rxe && module_load && [ $status = 0 ]
	}
	t "oxe is not loaded beside rdma_rxe, and the kernel log says why" t_no_oxe
	t_compat() {
		local status=0
		module_unload && module_load rxe_compat=1 && veth || return 1
		rdma link add $D type rxe netdev x0 && identity 0xffffff 0 && link_del $D && on x0 || status=1
		module_unload && module_load && [ $status = 0 ]
	}
	t "rxe_compat=1 serves link type rxe too" t_compat
	clear_all
	# The shortest table there is has 16 entries, the longest 1024.
	gids_are() { # PARAMETER ENTRIES
		local status=0
		module_unload && OXE_PARAMS='' module_load $1 && veth && link_add $D x0 || return 1
		[ "$(ls /sys/class/infiniband/$D/ports/1/gids | wc -l)" = "$2" ] || status=1
		link_del $D && ip link del x0 && module_unload && module_load && [ $status = 0 ]
	}
	t_gids() {
		gids_are "" 1024 && gids_are gids=20 20 && gids_are gids=1 16 && gids_are gids=5000 1024
	}
	t "the length of the GID table" t_gids
	clear_all
	t_no_compat() {
		veth && fails "Invalid|not supported|No such|Wrong" rdma link add $D type rxe netdev x0
	}
	t "without it there is no link type rxe" t_no_compat
else
	skip "mutual exclusion, rxe_compat" "for oxe alone"
fi
clear_all
finish
