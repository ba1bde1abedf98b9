#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The test of the packages, in the virtual machine: /oxe/phase says which part of it. After the
# first the machine starts again, beside a second one with a copy of its disk. Prints TAP.
export LC_ALL=C HOME=/root
kernel=$(uname -r)
number=0

# check TEXT COMMAND...: one case; the output of one that fails is shown.
check() {
	local text=$1 out
	shift
	number=$((number + 1))
	if out=$("$@" 2>&1); then
		echo "ok $number - $text"
	else
		echo "not ok $number - $text"
		sed 's/^/# /' <<<"$out"
	fi
}
# within SECONDS COMMAND...: it succeeds within that time.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.5
	done
}
device() { rdma link show "$1/1" 2>/dev/null | grep -q "netdev $2"; }
no_device() { ! rdma link show | grep -q "$1"; }
not() { ! "$@"; }

# pingpong: between two network namespaces of this machine.
pingpong() {
	local server status
	ip netns add left && ip netns add right || return 1
	ip -n left link add veth0 type veth peer name veth1 netns right || return 1
	ip -n left address add 10.9.0.1/24 dev veth0
	ip -n right address add 10.9.0.2/24 dev veth1
	ip -n left link set veth0 up
	ip -n right link set veth1 up
	ip netns exec left rdma link add oxel type oxe netdev veth0 || return 1
	ip netns exec right rdma link add oxer type oxe netdev veth1 || return 1
	ip netns exec left ibv_rc_pingpong -d oxel -g "$(gid oxel 10.9.0.1)" -n 100 &
	server=$!
	within 60 listens left || return 1
	ip netns exec right ibv_rc_pingpong -d oxer -g "$(gid oxer 10.9.0.2)" -n 100 10.9.0.1
	status=$?
	wait $server || status=1
	ip netns delete left
	ip netns delete right
	return $status
}
listens() { ip netns exec "$1" ss -Hltn | grep -q ':18515 '; }
# gid DEVICE ADDRESS: the index of that IPv4 address.
gid() {
	local wanted file
	# shellcheck disable=SC2046,SC2183 # four numbers
	wanted=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$2"))
	for file in /sys/class/infiniband/"$1"/ports/1/gids/*; do
		if [ "$(cat "$file")" = "$wanted" ]; then
			basename "$file"
			return
		fi
	done
}

# wire NUMBER: eth0, as host 10.1.0.NUMBER.
wire() {
	ip link set eth0 up
	ip address add "10.1.0.$1/24" dev eth0
}
# served: ibv_rc_pingpong's server for the other machine, for as long as that may take to boot.
served() { timeout 600 ibv_rc_pingpong -c -d oxe_eth0 -g "$(gid oxe_eth0 10.1.0.1)" -n 100; }
# asks: its client, again until the server listens. Both compare the data.
asks() { within 600 ibv_rc_pingpong -c -d oxe_eth0 -g "$(gid oxe_eth0 10.1.0.2)" -n 100 10.1.0.1; }
# status STATUS TEXT: oxe status ends with this exit status, and says this.
status() {
	local out status=0
	out=$(oxe status 2>&1) || status=$?
	echo "$out"
	[ $status = "$1" ] && grep -qF -- "$2" <<<"$out"
}
versions() { dpkg-query -W -f '${Version}\n' oxe "linux-modules-oxe-$kernel"; }
# completes LINE WORD...: bash offers these words where rdma's line ends.
completes() {
	bash -c '. /etc/bash_completion.d/oxe.bash-completion
		read -ra COMP_WORDS <<<"$0|"
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]%|}
		_oxe_rdma && echo "${COMPREPLY[*]}" && [ "${COMPREPLY[*]}" = "$*" ]' "$@"
}

case $(cat /oxe/phase) in
install)
	wire 1
	# The README's first commands.
	cd /oxe/packages || exit
	began=$EPOCHREALTIME
	check "the packages are installed" apt-get install -y ./oxe{,-tools}_*.deb \
		./linux-modules-oxe-"$(uname -r)"_*.deb ibverbs-utils
	check "rdma link add loads the module" rdma link add oxe0 type oxe netdev eth0
	check "ibv_devinfo shows the device" grep -q PORT_ACTIVE <(ibv_devinfo -d oxe0)
	echo "# the README's three commands took" \
		"$(awk "BEGIN { printf \"%.0f\", $EPOCHREALTIME - $began }") s on an emulated CPU"
	check "modinfo has the packages' version" \
		test "$(modinfo -F version oxe)" = "$(versions | sed 's/[~+].*//' | uniq)"
	check "the module's package is under 1 MB" \
		test "$(stat -c %s linux-modules-oxe-"$kernel"_*.deb)" -lt 1000000
	dpkg -L oxe oxe-tools linux-modules-oxe-"$kernel" >/var/files
	check "no problem of dpkg" not grep -q . <(dpkg --audit)
	check "the scripts for bpftrace are there" test "$(ls /usr/share/oxe/bpftrace | wc -l)" = 4
	check "the device is there" device oxe0 eth0
	check "rdma link add is completed" completes 'rdma link add a type o' oxe
	check "rdma link del is completed" completes 'rdma link del ' oxe0
	check "rdma statistic show link is completed" completes 'rdma statistic show link o' oxe0/1
	check "ibv_rc_pingpong between two namespaces" pingpong
	check "oxe status finds nothing wrong" within 60 status 0 "Nothing is wrong."
	check "rdma link delete" rdma link delete oxe0
	check "oxe status without a device" status 1 "has no device"
	check "the unit is enabled, and started" systemctl enable --now oxe@eth0.service
	check "it made the device" within 60 device oxe_eth0 eth0
	check "a second unit is enabled" systemctl enable oxe@veth5.service
	;;
peer)
	wire 2
	check "the unit brings the device back" within 120 device oxe_eth0 eth0
	check "ibv_rc_pingpong with the other machine" asks
	;;
boot)
	wire 1
	check "the unit brings the device back" within 120 device oxe_eth0 eth0
	check "ibv_rc_pingpong with the other machine" served
	check "the unit is active" within 60 systemctl is-active oxe@eth0.service
	check "no device without its netdev" no_device veth5
	ip link add veth5 type veth peer name veth6
	check "a device for a netdev that appears" within 60 device oxe_veth5 veth5
	ip link delete veth5
	check "the device goes with the netdev" within 60 no_device veth5
	check "the unit stops with the netdev" within 60 not systemctl is-active oxe@veth5.service
	check "the packages are upgraded" dpkg -i /oxe/next/*.deb
	check "to a later version" test "$(versions | grep -c '+next$')" = 2
	check "the device has stayed" device oxe_eth0 eth0
	check "the unit is active still" systemctl is-active oxe@eth0.service
	check "no unit failed" not grep -q oxe <(systemctl --failed --plain --no-legend)
	cp /usr/share/doc/oxe/examples/oxe-in-place-of-rxe.conf /etc/modprobe.d/
	check "the unit is stopped" systemctl stop oxe@eth0.service
	check "its device is gone" no_device eth0
	check "the module can be removed" modprobe -r oxe
	check "in rxe's place: its link type" rdma link add rxe0 type rxe netdev eth0
	check "in rxe's place: it is oxe" grep -q '^oxe ' /proc/modules
	check "in rxe's place: rdma_rxe is not there" not grep -q '^rdma_rxe ' /proc/modules
	rdma link delete rxe0
	rm /etc/modprobe.d/oxe-in-place-of-rxe.conf
	check "the unit is started again" systemctl start oxe@eth0.service
	check "the packages are removed" apt-get remove -y oxe oxe-tools \
		linux-modules-oxe-"$kernel"
	check "no device is left" no_device oxe
	check "the module can be unloaded" rmmod oxe
	check "and is not found any more" not modprobe oxe
	check "purged" dpkg -P oxe oxe-tools "linux-modules-oxe-$kernel"
	check "no file is left" not grep . <(
		find / -xdev -path /oxe -prune -o -iname '*oxe*' -print
		xargs -d '\n' sh -c 'for file; do [ -d "$file" ] || ls -d "$file"; done' _ \
			</var/files 2>/dev/null
		grep -l oxe /lib/modules/"$kernel"/modules.{dep,alias})
	;;
esac
check "no report of the kernel" not grep -E 'WARNING:|BUG:|Oops|Call Trace' <(dmesg)
echo "1..$number"
echo end
sync
systemctl poweroff
