# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # set by oxe-run's other parts
#
# Machines that stay up: oxe-run up, exec, down, and --shell. The machines' agents (guest-agent) run
# what exec asks for; each machine has some channels, of which an exec takes one.
#
# $log_base/up names the process that keeps the machines, its directory and that of its logs.

serve=0 shell=0 channels=8

# add_channels: those of the machine that is made.
add_channels() {
	local n
	more+=(-device virtio-serial-pci)
	for ((n = 1; n <= channels; n++)); do
		mkfifo "$here/channel$n.in" "$here/channel$n.out"
		more+=(-chardev "pipe,id=channel$n,path=$here/channel$n"
			-device "virtserialport,chardev=channel$n,name=oxe.$n")
	done
}

# session: $keeper, $run and $log of the machines that are up, or 1.
session() {
	[ -e "$log_base/up" ] &&
		{ read -r keeper && read -r run && read -r log; } <"$log_base/up" &&
		[ -d "$run" ] && [ -e "/proc/$keeper" ]
}
need_session() {
	session || die "no machines are up here: $oxe_run up starts them (the directory counts)"
}

# keep: the machines, to their end, in a process of its own. Its directory is that of this shell,
# which leaves it alone.
keep() {
	trap clean_up EXIT
	trap 'exit 130' TERM
	trap '' HUP INT
	echo $BASHPID >"$log/lock"
	litter+=("$log_base/up")
	printf '%s\n' $BASHPID "$run" "$log" >"$log_base/up"
	run_hosts
	judge_hosts
	bring_all_back
	finish
}

# up: until all hosts have their device.
up() {
	local keeper text file
	: >"$log/up.log"
	keep >>"$log/up.log" 2>&1 </dev/null &
	keeper=$!
	trap 'kill $keeper 2>/dev/null; exit 130' INT TERM
	trap - EXIT
	exec {leash}>&- {file}<"$log/up.log"
	until [ -e "$run/ready" ]; do
		while IFS= read -r text <&"$file"; do echo "$text" >&2; done
		kill -0 $keeper 2>/dev/null || {
			while IFS= read -r text <&"$file"; do echo "$text" >&2; done
			say "error: the machines did not come up: see $log"
			exit 126
		}
		sleep 0.2
	done
	while IFS= read -r text <&"$file"; do echo "$text" >&2; done
}

# take_channel ROLE: $channel, a channel of that host, for as long as this process lives.
take_channel() {
	local n holder lock
	[[ -d $run/$1 && $1 != */* ]] || die "there is no host $1"
	for ((n = 1; n <= channels; n++)); do
		lock=$run/$1/channel$n.lock
		holder=$(cat "$lock" 2>/dev/null) || true
		[ -z "$holder" ] || [ -e "/proc/$holder" ] || rm -f "$lock"
		if (set -C; echo $$ >"$lock") 2>/dev/null; then
			channel=$run/$1/channel$n token=$$.$RANDOM
			return 0
		fi
	done
	die "$channels commands run on $1 already: no more at a time"
}

# relay: the output of what runs on the channel, to its end; its exit status. What an exec that was
# killed has left there has another token.
relay() {
	local of kind data
	while read -r of kind data <&6; do
		[ "$of" = "$token" ] || continue
		case $kind in
		out) base64 -d <<<"$data" ;;
		err) base64 -d <<<"$data" >&2 ;;
		exit)
			rm -f "$channel.lock"
			return "$data"
			;;
		esac
	done
	return 125
}

# exec_on ROLE WORD...: one word is a line for the shell, several are a program and its arguments.
exec_on() {
	local role=$1 status=0 words
	shift
	[ $# != 0 ] || die "usage: $oxe_run exec HOST COMMAND"
	words=$1
	[ $# = 1 ] || words=$(printf '%q ' "$@")
	take_channel "$role"
	exec 6<>"$channel.out" 7<>"$channel.in"
	trap 'echo "$token end" >&7; rm -f "$channel.lock"; exit 130' INT TERM HUP
	printf '%s run %s\n' "$token" "$(printf %s "$words" | base64 -w 0)" >&7
	# Of a machine that died there will be no answer.
	(
		while [ -e "$run/$role.pid" ]; do sleep 0.5; done
		echo "$token exit 125" >&6
	) >/dev/null 2>&1 &
	relay || status=$?
	kill $! 2>/dev/null || true
	exit $status
}

# down: the machines end; what the programs left comes back.
down() {
	need_session
	: >"$run/down"
	while [ -e "/proc/$keeper" ]; do sleep 0.2; done
	tail -n 1 "$log/up.log" >&2
	[ -e "$log/result" ] || exit 125
	exit "$(<"$log/result")"
}

# end_session: the hosts are told so, once.
end_session() {
	local role
	[ $serve = 1 ] || return 0
	serve=2
	for role in "${roles[@]}"; do
		order "$role" "tell down 1"
	done
}

# prompts: a prompt on each host; ^] goes to the next. The machines end with the last one.
prompts() {
	local role key current=0 width height i readers=() ends=() tokens=()
	read -r height width < <(stty size)
	for role in "${roles[@]}"; do
		take_channel "$role"
		exec {i}<>"$channel.in"
		ends+=("$i") tokens+=("$token")
		(exec 6<>"$channel.out"; relay || true; : >"$run/$role.left") &
		readers+=($!)
		echo "$token shell $width $height" >&"$i"
	done
	cat >&2 <<-T
		Each host has its device, oxe0; this prompt is on ${roles[0]}, and ^] leads to the
		next host. Try
		  ibv_rc_pingpong -d oxe0 -g \$OXE_GID_INDEX &    on the first host, and on another
		  ibv_rc_pingpong -d oxe0 -g \$OXE_GID_INDEX ${roles[0]}
		Leave with exit or ^D.
	T
	trap 'stty sane; : >"$run/down"' EXIT
	stty raw -echo
	while [ ! -e "$run/${roles[current]}.left" ]; do
		IFS= LC_ALL=C read -rN1 -t 0.3 key || continue
		if [ "$key" = $'\x1d' ]; then
			current=$(((current + 1) % ${#roles[@]}))
			printf '\r\n[%s]\r\n' "${roles[current]}" >&2
			key=$'\r'
		fi
		printf '%s in %s\n' "${tokens[current]}" "$(printf %s "$key" | base64 -w 0)" \
			>&"${ends[current]}"
	done
	stty sane
	kill "${readers[@]}" 2>/dev/null || true
	trap - EXIT
}
