# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # set by oxe-run's other parts
#
# What goes into oxe-run's machines, what comes back, and the verdict.

# The most that goes into a machine, in MiB: its disk has not much more room, and the programs
# need some. From the second number on it is told.
most=1024 much=100

# take_log: the directory of logs is this run's, until it ends.
take_log() {
	local holder
	for _ in 1 2 3; do
		if (set -C; echo $$ >"$log/lock") 2>/dev/null; then
			return 0
		fi
		holder=$(cat "$log/lock" 2>/dev/null) || true
		[ -n "$holder" ] && [ -e "/proc/$holder" ] && return 1
		# Its run was killed.
		rm -f "$log/lock" 2>/dev/null || true
	done
	die "the logs cannot be kept in $log: give another --log DIRECTORY"
}

# new_log: $log, by default a directory of this run's own in $log_base. Those before the last ten
# go, but for those in use.
new_log() {
	local old olds=() holder
	if [ -z "$log" ]; then
		mkdir -p "$log_base" 2>/dev/null &&
			log=$(mktemp -d "$log_base/$(date +%Y%m%d-%H%M%S).XXXX" 2>/dev/null) ||
			die "the logs cannot be kept in $log_base: give --log DIRECTORY"
		chmod 755 "$log"
		# Another run may be making the same link.
		ln -sfn "${log##*/}" "$log_base/last" 2>/dev/null || true
		for old in "$log_base"/2*/; do
			olds+=("$old")
		done
		for old in "${olds[@]:0:${#olds[@]}>10?${#olds[@]}-10:0}"; do
			holder=$(cat "$old/lock" 2>/dev/null) || true
			[ -n "$holder" ] && [ -e "/proc/$holder" ] || rm -rf "$old"
		done
	else
		mkdir -p "$log" || die "there cannot be a directory $log"
		log=$(cd "$log" && pwd -P)
	fi
	take_log || die "another $oxe_run keeps its logs in $log: give another --log DIRECTORY"
	litter+=("$log/lock")
}

# pack: the current directory as work.tar, the same for all machines.
pack() {
	local status size place inside=()
	for place in "$log" "$log_base"; do
		[[ $place != "$directory"/* ]] || inside+=(--anchored --no-wildcards
			"--exclude=./${place#"$directory/"}" --no-anchored --wildcards)
	done
	set +e
	tar -c "${inside[@]}" "${exclude[@]}" --owner=0 --group=0 --numeric-owner \
		--ignore-failed-read \
		--warning=no-file-ignored . | head -c $((most * 1024 * 1024 + 1)) >"$run/work.tar"
	status=${PIPESTATUS[0]} size=$(($(stat -c %s "$run/work.tar") / 1024 / 1024))
	set -e
	[ $size -lt $most ] ||
		die "$directory has more than the $most MiB that go into a machine: leave parts" \
			"out by --exclude PATTERN, or change to a smaller directory"
	# 1: a file changed while it was read.
	[ "$status" -le 1 ] || die "$directory cannot be read: see tar's message"
	[ $size -lt $much ] || say "each machine gets a copy of the current directory, of $size MiB"
}

# keep_log ROLE: the kernel's log of a machine that has ended, and what else it is to leave.
keep_log() {
	[ ! -e "$run/$1/dmesg" ] || tr -d '\r' <"$run/$1/dmesg" >"$log/$1.dmesg"
	[ ! -e "$run/$1/pcap" ] || cp "$run/$1/pcap" "$log/$1.pcap"
	[ ! -f "$run/$1/back/out/counters" ] || cp "$run/$1/back/out/counters" "$log/$1.counters"
}

# report_of ROLE: the first report in the kernel's log of a machine. What the limit has the kernel
# tell of its tasks is none.
report_of() {
	local text
	[ -e "$log/$1.dmesg" ] || return 0
	while IFS= read -r text; do
		[[ $text != *'sysrq: Show '* ]] || return 0
		if [[ $text =~ $OXE_REPORTS ]]; then
			echo "${text:0:160}"
			return 0
		fi
	done <"$log/$1.dmesg"
}

# newer_library ROLE: the C library that a program asked for in vain, by the loader's words.
newer_library() {
	local text
	while IFS= read -r text; do
		if [[ $text =~ version\ .(GLIBC(XX)?_[0-9.]+).\ not\ found ]]; then
			echo "${BASH_REMATCH[1]}"
			return 0
		fi
	done <"$log/$1.out"
}

result=0 summary=()
# judge STATUS TEXT...: the run has failed; the first reason gives the status.
judge() {
	say "${@:2}"
	[ $result != 0 ] || result=$1
}

judge_hosts() {
	local i role status where report clean='kernel logs clean' version
	for role in "${roles[@]}"; do
		keep_log "$role"
	done
	if [ -n "$first" ]; then
		where=" on the $first"
		[[ $first != single ]] || where=''
		[[ $first != host* ]] || where=" on $first"
		judge "${ended[$first]}" "the program failed$where with status ${ended[$first]}"
		version=$(newer_library "$first")
		[ -z "$version" ] ||
			say "the program was linked with a newer C library than the guest's:" \
				"it needs $version. Build it for the guest, by --build 'COMMAND'"
	fi
	for i in "${!roles[@]}"; do
		role=${roles[i]}
		case ${statuses[i]} in
		0) status='' ;;
		124 | 125 | 126) status=${statuses[i]} ;;
		*) status=125 ;;
		esac
		[ -z "$status" ] ||
			judge $status \
				"the machine $role did not reach its end (status ${statuses[i]})"
		report=$(report_of "$role")
		if [ -n "$report" ]; then
			clean='a kernel reported an error'
			judge 125 "the kernel of $role reported: $report"
		fi
		status=${ended[$role]:-}
		summary+=("$role ${status:-unknown}")
		if [ "$status" != 0 ] && { [ "$status" != stopped ] || [ $stop_server = 0 ]; }; then
			[ $result != 0 ] ||
				judge 125 "the machine $role did not tell how its program ended"
		fi
	done
	summary+=("$clean")
}

bring_all_back() {
	local role
	for role in "${roles[@]}"; do
		[ $read_only = 1 ] || [ ! -d "$run/$role/back/work" ] ||
			bring_back "$run/$role/back/work" "$directory" ||
			judge 126 "not all files of the machine $role could be put into" \
				"$directory: see tar's message"
	done
}

# show_counters: those of each device that are not 0.
show_counters() {
	local role name value
	for role in "${roles[@]}"; do
		[ -e "$log/$role.counters" ] || continue
		while read -r name value; do
			[ "$value" = 0 ] || printf 'oxe: %s: %s %s\n' "$role" "$name" "$value" >&2
		done <"$log/$role.counters"
	done
}

# finish: the last line.
finish() {
	local text verdict=failed
	[ $counters = 0 ] || show_counters
	printf -v text '%s, ' "${summary[@]}"
	[ $result != 0 ] || verdict=ok
	[ $result = 0 ] && [ $quiet = 1 ] ||
		say "$verdict in $(elapsed) s (${text%, }); logs in $(shorter "$log")"
	[ $serve = 0 ] || echo $result >"$log/result"
	exit $result
}
# shorter PATH: as seen from the current directory.
shorter() {
	[[ $1 == "$directory"/* ]] && echo "./${1#"$directory/"}" || echo "$1"
}
