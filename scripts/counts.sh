# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # those who source this use the counts
#
# For scripts that run others whose last line is "N passed, N failed, N skipped". Sourced.

passed=0 failed=0 skipped=0

# add_counts LINE: to passed, failed and skipped; fails if the line has no counts.
add_counts() {
	[[ $1 =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]] || return 1
	passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
	skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
}

# part TITLE COMMAND...: show its output and how long it took, add the counts in its last line. A
# command that prints no counts has failed.
part() {
	local title=$1 began=$SECONDS status=0 file
	echo "== $title"
	shift
	file=$(mktemp)
	"$@" | tee "$file" || status=$?
	if ! add_counts "$(tail -n 1 "$file")"; then
		echo "not ok  ended early (status $status)"
		failed=$((failed + 1))
	fi
	rm -f "$file"
	echo "== $title: $((SECONDS - began)) s"
}

# beside FUNCTION ARGUMENT...: one that counts, in the background; after, which waits for it, shows
# its output and adds its counts. One at a time. It is a process group of its own, and ends with
# this script.
beside() {
	beside_output=$(mktemp)
	set -m
	(
		trap - EXIT INT TERM HUP
		passed=0 failed=0 skipped=0
		"$@"
		sum || true
	) >"$beside_output" 2>&1 </dev/null &
	beside_process=$!
	set +m
	trap end_beside EXIT
	trap 'exit 130' INT TERM HUP
}
end_beside() {
	if [ -n "$beside_process" ] && kill -TERM -- "-$beside_process" 2>/dev/null; then
		sleep 1
		# unshare holds back gentler signals.
		kill -KILL -- "-$beside_process" 2>/dev/null || true
	fi
	rm -f "$beside_output"
}
after() {
	local status=0
	wait "$beside_process" || status=$?
	beside_process=''
	if add_counts "$(tail -n 1 "$beside_output")"; then
		head -n -1 "$beside_output"
	else
		cat "$beside_output"
		echo "not ok  ended early (status $status)"
		failed=$((failed + 1))
	fi
	rm -f "$beside_output"
}

# sum: the last line, and the exit status.
sum() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}
