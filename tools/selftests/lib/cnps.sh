# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Captures that the judge of congestion notification looks at (py/cnps.py). Sourced after lib.sh.
# The test programs write their connections into the file that PAIRS names.

export PAIRS=$TMP/pairs

# watch_begin FILE NETDEV [COMMAND...]: captures both directions of the netdev, by the command. The
# beginning of each packet is enough, and a whole one would leave room for few.
watch_begin() {
	: >"$PAIRS"
	"${@:3}" tcpdump -q -U --immediate-mode -B 16384 -s 192 -i "$2" -w "$1" udp port 4791 \
		>"$1.log" 2>&1 9>&- &
	WATCH=$!
	poll 60 grep -q 'listening on' "$1.log"
}
watch_end() {
	kill -INT "$WATCH"
	wait "$WATCH"
}

# judged FILE OPTION...: the judge finds nothing. Options as those of py/cnps.py.
judged() {
	local status=0
	cat "$1.log"
	grep -q '^0 packets dropped by kernel' "$1.log" || return 1
	python3 "$PY/cnps.py" "$1" "$PAIRS" "${@:2}" >"$TMP/judged" || status=$?
	cat "$TMP/judged"
	diag <"$TMP/judged"
	return $status
}

# cnps_parsed FILE: tshark parses each CNP in it.
cnps_parsed() {
	local all parsed
	all=$(tcpdump -r "$1" '(ip and udp[8] == 0x81) or (ip6 and ip6[48] == 0x81)' 2>"$TMP/err" |
		wc -l)
	parsed=$(tshark -n -r "$1" 2>"$TMP/err" -Y "infiniband.bth.opcode == 0x81 &&
		infiniband.bth.m == 0 && infiniband.bth.psn == 0 && !_ws.malformed" | wc -l)
	cat "$TMP/err"
	echo "$parsed of $all CNPs parsed"
	[ "$parsed" = "$all" ] && [ "$all" -gt 0 ]
}
