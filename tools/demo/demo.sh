#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration, inside the virtual machine: two hosts (network namespaces joined by a veth
# pair) with a device each; programs from Debian's rdma-core and perftest, unmodified, run between
# them and over one device. Ends with a table; the exit status says whether all of them worked.
HERE_DEMO=$(dirname "$0")
export TAP=0
. "$HERE_DEMO/../selftests/lib.sh"
export LIMIT=60
results=$TMP/results failures=0

# show NAME WAY FIGURES-FUNCTION COMMAND...: run, take the figures from the client's output, keep a
# line for the table.
show() {
	local name=$1 way=$2 figures=$3 verdict=ok text=''
	shift 3
	printf '  %-16s %-9s ... ' "$name" "$way"
	if "$@" >"$TMP/log" 2>&1 && text=$($figures) && [ -n "$text" ]; then
		echo "ok"
	else
		verdict=FAILED text="see above" failures=$((failures + 1))
		echo "FAILED"
		tail -n 25 "$TMP/log" | sed 's/^/      | /'
	fi
	printf '%s|%s|%s|%s\n' "$name" "$way" "$verdict" "$text" >>"$results"
}

# way WAY: sets where the two ends are: "wire" (host A and host B) or "loopback" (both on host A's
# device).
way() {
	server_dev=$DEV_A server_gid=$GID4_A
	if [ "$1" = wire ]; then
		client_dev=$DEV_B client_gid=$GID4_B client=''
	else
		client_dev=$DEV_A client_gid=$GID4_A client="nsenter --net=/run/netns/$NS_A "
	fi
}
pingpong() { # PROGRAM OPTION...
	local program=$1
	shift
	PORT=$((PORT + 1))
	pair "tcp $PORT" "$program -p $PORT -d $server_dev -g $server_gid $*" \
		"$client$program -p $PORT -d $client_dev -g $client_gid $* $IP4_A"
}
perftest() { # PROGRAM OPTION...
	local program=$1
	shift
	PORT=$((PORT + 1))
	pair "tcp $PORT" "$program -F -p $PORT -d $server_dev -x $server_gid $*" \
		"$client$program -F -p $PORT -d $client_dev -x $client_gid $* $IP4_A"
}
ping_rdma() { # COUNT SIZE
	PORT=$((PORT + 1))
	pair "cm $PORT" "rping -s -a $IP4_A -p $PORT -C $1 -S $2 -V" \
		"${client}rping -c -a $IP4_A -p $PORT -C $1 -S $2 -V -v"
}
devinfo() {
	local dev
	for dev in $DEV_A $DEV_B; do
		ibv_devinfo -v -d $dev || return 1
	done | tee "$TMP/client"
	[ "$(grep -c 'state:.*PORT_ACTIVE' "$TMP/client")" = 2 ]
}

# The output of each program, in a few words.
figures_devinfo() {
	sed -n 's/^[ \t]*active_mtu:[ \t]*\([0-9]*\).*/\1/p; s/^[ \t]*state:[ \t]*\(.*\) (.*/\1/p' \
		"$TMP/client" |
		paste -sd' ' | awk '{ print $1 ", MTU " $2 " and " $3 ", MTU " $4 }'
}
figures_pingpong() {
	sed -n 's/.* in \([0-9.]* seconds\) = \([0-9.]*\) usec.iter/\2 us a round trip/p' \
		"$TMP/client"
}
figures_rping() { grep -c '^ping data' "$TMP/client" | sed 's/$/ pings, data compared/'; }
figures_bw() {
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { printf "%s bytes, %s Gb/s\n", $1, $4 }' "$TMP/client"
}
figures_lat() {
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ {
		printf "%s bytes, %s us one way (typical)\n", $1, $5
	}' "$TMP/client"
}

echo "oxe demo: $(uname -sr), two hosts joined by a veth pair, link type $LINK_TYPE"
if ! { net_up 1500 && links_up; } >"$TMP/log" 2>&1; then
	echo "the devices could not be made:"
	cat "$TMP/log"
	dmesg | tail -n 20
	leave 1
fi
rdma link show

show ibv_devinfo "-" figures_devinfo devinfo
for where in wire loopback; do
	way $where
	show ibv_rc_pingpong $where figures_pingpong pingpong ibv_rc_pingpong -e -c -n 500
	show ibv_ud_pingpong $where figures_pingpong pingpong ibv_ud_pingpong -e -n 500
	show rping $where figures_rping ping_rdma 20 1000
	show ib_send_bw $where figures_bw perftest ib_send_bw -e -s 65536 -n 200 --report_gbits
	show ib_write_bw $where figures_bw perftest ib_write_bw -s 65536 -n 200 --report_gbits
	show ib_read_bw $where figures_bw perftest ib_read_bw -e -s 65536 -n 200 --report_gbits
	show ib_send_lat $where figures_lat perftest ib_send_lat -e -s 64 -n 300
done

# The devices must go away again, and the kernel log must hold no report.
show "clean-up" "-" 'echo nothing left behind, kernel log clean' \
	eval 'nothing_left && hosts_down && no_devices && no_reports'

echo
printf '%-16s  %-9s  %-6s  %s\n' PROGRAM BETWEEN RESULT FIGURES
printf '%-16s  %-9s  %-6s  %s\n' ---------------- --------- ------ ------------------------------
while IFS='|' read -r name where verdict text; do
	printf '%-16s  %-9s  %-6s  %s\n' "$name" "$where" "$verdict" "$text"
done <"$results"
echo
total=$(wc -l <"$results")
if [ $failures = 0 ]; then
	echo "All $total worked. The figures are of an emulated CPU: they say that it works," \
		"not how fast it is."
	leave 0
fi
echo "$failures of $total FAILED."
leave 1
