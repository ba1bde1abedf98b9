#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# program: Debian's monitors show a device: prometheus-node-exporter has its state, rate and
# counters, atop its words and packets per interval; and what they show moves with the traffic, by
# as much as the counters in sysfs.
. "$(dirname "$0")/lib.sh"
[ "$LINK_TYPE" = oxe ] || skip_all "rdma_rxe counts otherwise"
command -v prometheus-node-exporter atop >/dev/null ||
	skip_all "the monitors are missing: guests of trixie alone have them"

counter() { cat "/sys/class/infiniband/$1/ports/1/counters/$2"; } # DEVICE NAME
exchange() { # BYTES MESSAGES
	PORT=$((PORT + 1))
	local options="-p $PORT -n $2 -s $1"
	pair "tcp $PORT" "ibv_rc_pingpong -d $DEV_A -g $GID4_A $options" \
		"ibv_rc_pingpong -d $DEV_B -g $GID4_B $options $IP4_A"
}

# --- prometheus-node-exporter

WEB=127.0.0.1:9100
fetch() {
	python3 -c "import urllib.request
print(urllib.request.urlopen('http://$WEB/metrics').read().decode())" >"$TMP/metrics"
}
# is METRIC DEVICE VALUE: it has this value, of those that were fetched last.
is() {
	grep -m 1 "^node_infiniband_$1{.*device=\"$2\"" "$TMP/metrics" | tee "$TMP/line"
	awk -v value="$3" '{ found = 1; wrong = $NF != value + 0 } END { exit !found || wrong }' \
		"$TMP/line"
}
exporter() {
	prometheus-node-exporter --web.listen-address=$WEB --collector.disable-defaults \
		--collector.infiniband >"$TMP/exporter" 2>&1 9>&- &
	EXPORTER=$!
	poll 60 fetch || { cat "$TMP/exporter"; return 1; }
	is info $DEV_A 1 && is state_id $DEV_A 4 && is physical_state_id $DEV_A 5 &&
		is rate_bytes_per_second $DEV_A 1250000000
}
# as_counted DEVICE: the counters are those in sysfs; the exporter makes bytes of words.
as_counted() {
	is port_data_received_bytes_total "$1" $(($(counter "$1" port_rcv_data) * 4)) &&
		is port_data_transmitted_bytes_total "$1" \
			$(($(counter "$1" port_xmit_data) * 4)) &&
		is port_packets_received_total "$1" "$(counter "$1" port_rcv_packets)" &&
		is port_packets_transmitted_total "$1" "$(counter "$1" port_xmit_packets)" &&
		is link_downed_total "$1" "$(counter "$1" link_downed)" &&
		is port_errors_received_total "$1" "$(counter "$1" port_rcv_errors)" &&
		is port_discards_transmitted_total "$1" "$(counter "$1" port_xmit_discards)"
}
exported() {
	local words
	words=$(counter $DEV_A port_rcv_data)
	exchange 4096 100 || return 1
	[ $(($(counter $DEV_A port_rcv_data) - words)) -ge 102400 ] || return 1
	fetch && as_counted $DEV_A && as_counted $DEV_B || return 1
	in_b bash -c "printf x >/dev/udp/$IP4_A/4791"
	poll 20 eval "[ \$(counter $DEV_A port_rcv_errors) = 1 ]" && fetch && as_counted $DEV_A
}

# --- atop

# shown FIELD: the sum of that field of host A's port over the intervals since atop began. The first
# figures are those since boot.
shown() {
	awk -v device=$DEV_A -v field="$1" '$1 == "SEP" { later = 1 }
		later && $1 == "IFB" && $7 == device { sum += $field }
		END { print sum + 0 }' "$TMP/atop"
}
seen() { [ "$(shown "$1")" = "$2" ] || { echo "field $1: $(shown "$1"), not $2"; false; }; }
atop_once() {
	local pid words packets
	words=$(counter $DEV_A port_rcv_data) packets=$(counter $DEV_A port_rcv_packets)
	atop -P IFB 1 600 >"$TMP/atop" 2>&1 9>&- &
	pid=$!
	poll 60 grep -q '^SEP' "$TMP/atop" && exchange 4096 100 || return 1
	words=$(($(counter $DEV_A port_rcv_data) - words))
	packets=$(($(counter $DEV_A port_rcv_packets) - packets))
	poll 60 seen 11 $words && poll 60 seen 13 $packets
	local status=$?
	kill_wait $pid
	tail -n 5 "$TMP/atop"
	[ $status = 0 ] && [ $words -ge 102400 ] && grep -q "^IFB .* $DEV_A 1 1 10000 " "$TMP/atop"
}
# atop ends by itself when a process begins between its two looks at them.
by_atop() {
	local try
	for try in 1 2 3; do
		atop_once && return
		grep -q '^#threads .* < #procs' "$TMP/atop" || return 1
		echo "atop ended, $try times of 3"
	done
	return 1
}

hosts_up 1500
t "the node exporter shows the device" exporter
t "what the node exporter shows moves with the counters" exported
kill_wait $EXPORTER
t "atop shows packets and words" by_atop
finish
