#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In the machines of scripts/check-doors: does what the host says, by the second serial line (which
# is standard output, too: tools/packaging/test/init). Orders, a line each:
#
#   run NN         the block NN of commands, as the user types them
#   until NN       the same, again until it succeeds, as its server may not listen yet
#   call NAME ...  a function of this file, as root
#   off            the end
#
# Answers: "NN| TEXT" for each line of output, and "NN done STATUS"; for a function "call".
export LC_ALL=C HOME=/root DEBIAN_FRONTEND=noninteractive

# as_user NN: a login of the user's, who says yes to what is asked.
as_user() {
	yes | su - user -c "DEBIAN_FRONTEND=noninteractive bash -eu /oxe/blocks/$1.sh" 2>&1
}

# until_done NN: for as long as a machine may take to come to this block.
until_done() {
	local end=$((SECONDS + 600)) text
	until text=$(as_user "$1"); do
		[ $SECONDS -lt $end ] || { echo "$text"; return 1; }
		sleep 1
	done
	echo "$text"
}

# report NAME COMMAND...: with its output and its status.
report() {
	local name=$1 line
	shift
	"$@" 2>&1 | while IFS= read -r line; do printf '%s| %s\n' "$name" "$line"; done
	printf '%s done %s\n' "$name" "${PIPESTATUS[0]}"
}

# --- What the host asks for ---

# address N: as a machine in a network has one.
address() { ip link set enp1s0 up && ip address add "10.99.0.$1/24" dev enp1s0; }

counter() { cat "/sys/class/infiniband/oxe0/ports/1/hw_counters/$1"; }

# knock: an attempt to connect to the other machine has sent two packets (the second as the first
# was not answered), and is given up.
knock() {
	local before client
	before=$(counter sent_pkts)
	rping -c -a 10.99.0.1 -C 1 >/dev/null 2>&1 &
	client=$!
	while [ "$(counter sent_pkts)" -lt $((before + 2)) ] && kill -0 $client; do
		sleep 0.2
	done
	kill $client
}

# close_FIREWALL: this one is in use, and lets no packet to port 4791 in; open_FIREWALL: it is gone.
close_nft() {
	apt-get -qq install -y nftables && nft -f - <<-'T'
		table inet filter {
			chain input {
				type filter hook input priority filter; policy drop
				iif lo accept
				ct state established,related accept
			}
		}
	T
}
open_nft() { nft flush ruleset; }
close_ufw() { apt-get -qq install -y ufw && ufw --force enable; }
open_ufw() { ufw --force disable; }
close_firewalld() {
	apt-get -qq install -y firewalld && systemctl start firewalld && firewall-cmd --state
}
open_firewalld() { systemctl stop firewalld; }

no_reports() { ! dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace'; }

echo ready
while read -r order name arguments; do
	case $order in
	run) report "$name" as_user "$name" & ;;
	until) report "$name" until_done "$name" & ;;
	call) report call "$name" $arguments </dev/null ;;
	off) break ;;
	esac
done </dev/ttyS1
sync
systemctl poweroff
