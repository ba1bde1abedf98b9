# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # set by oxe-run's other parts
#
# oxe-run's machines: each is a process of this shell's, in a directory of its own. They tell this
# script what the others are to know (see guest-run).

# In $run: the directory of this run, ROLE/ for each machine, ROLE.pid, and told. The process of
# ROLE.pid leads a group, so that a QEMU that has yet to write its qemu.pid can be killed with it.
run='' leash='' pids=() building=''

# new_run: the directory, and what ends the machines, if this script is killed.
new_run() {
	# shellcheck disable=SC2016 # for the shell that waits for that
	temporary oxe-run '
		shopt -s nullglob
		for file in "$0"/*.pid; do kill -KILL -- "-$(<"$file")"; done
		for file in "$0"/*/con.out "$0"/*/mon.out; do : <>"$file"; done
		for file in "$0"/*/qemu.pid; do
			while kill -0 "$(<"$file")"; do sleep 0.2; done
		done'
	trap clean_up EXIT
	trap 'exit 130' INT TERM HUP
	began=$SECONDS
}

# clean_up: at the end, however it comes; $litter is what else is to go then.
litter=() loader=''
clean_up() {
	[ -z "$loader" ] || { kill "$loader" && wait "$loader"; } 2>/dev/null || true
	stop_machines
	[ ${#litter[@]} = 0 ] || chmod -R u+w "${litter[@]}" 2>/dev/null || true
	remove "$run" "${litter[@]}"
}

# stop_machines: those that still run are killed.
stop_machines() {
	local file
	for file in "$run"/*.pid; do
		[ ! -e "$file" ] || kill -KILL -- "-$(<"$file")" 2>/dev/null || true
	done
	for file in "$run"/*/con.out "$run"/*/mon.out; do
		[ ! -p "$file" ] || : <>"$file"
	done
	[ ${#pids[@]} = 0 ] || wait "${pids[@]}" 2>/dev/null || true
	pids=()
}

# progress TEXT: with the time since the machines started.
progress() {
	[ $quiet = 1 ] || say "[$(elapsed) s] $1"
}
elapsed() { echo $((SECONDS - began)); }

# connect INDEX: the NIC of this host and its end of the wire. The first host of many has the hub to
# which the others' wires lead.
connect() {
	local i
	if [ "$hosts" = 1 ]; then
		# On a hub alone, QEMU would warn.
		[[ $netdevs == *$'\nuser\n'* ]] && more+=(-netdev "user,id=wire,restrict=on") ||
			more+=(-netdev "hubport,id=wire,hubid=0")
	elif [ "$hosts" = 2 ]; then
		wires=("${roles[$1 - 1]}" "$run/wire" wire)
	elif [ "$1" = 1 ]; then
		more+=(-netdev "hubport,id=wire,hubid=0")
		for ((i = 2; i <= hosts; i++)); do
			wires+=(server "$run/wire$i" "to$i")
			more+=(-netdev "hubport,id=port$i,hubid=0,netdev=to$i")
		done
	else
		wires=(client "$run/wire$1" wire)
	fi
	card wire "$1"
}

# impairment ROLE: what tc's netem takes for this host, or nothing.
impairment() {
	local netem=${netem[$1]:-${netem[all]:-}} rate=${rate[$1]:-${rate[all]:-}}
	echo "$netem${rate:+ rate $rate}"
}

# write_settings FILE NAME=VALUE...: those of guest-run.
write_settings() {
	local file=$1 name setting
	shift
	for setting in "directory=$directory" "limit=$limit" "mtu=$mtu" "port=$port" \
		"stop_server=$stop_server" "server=$server" "client=$client" "both=$both" \
		"roles=${roles[*]}" "counters=$counters" "build=$building" "serve=$serve" "$@"; do
		printf '%s=%q\n' "${setting%%=*}" "${setting#*=}"
	done >"$file"
	for name in "${environment[@]}"; do
		printf 'export %s=%q\n' "$name" "${!name}"
	done >>"$file"
}

# new_machine ROLE INDEX: in $here, all that run_machine takes. The index is 0 for a machine without
# a device, which only builds.
new_machine() {
	local role=$1 index=$2 way=rw load=1
	here=$run/$role share=$run/$role/share
	rm -rf "$here"
	mkdir -p "$share/out"
	# The copies in the single file come from there.
	guest_files "$share"
	if [ -e "$images/oxe" ]; then
		cp "$images/oxe" "$share/"
		chmod 755 "$share/oxe"
	fi
	echo 'bash /oxe/guest-run' >"$share/command"
	printf %s "$directory" >"$share/work"
	write_settings "$share/settings" "netem=$(impairment "$role")"
	[ $read_only = 0 ] || way=ro
	if [ "$index" = 0 ]; then
		way=rw load=0
	else
		[ "$type" = rxe ] || cp "$images/oxe.ko" "$share/oxe.ko"
		connect "$index"
		[ $serve = 0 ] || add_channels
		[ $pcap = 0 ] || more+=(-object "filter-dump,id=pcap,netdev=wire,file=$here/pcap")
	fi
	write_env OXE_TYPE="$type" OXE_LOAD=$load OXE_PARAMS="$params" OXE_ROLE="$role" \
		OXE_PEER_TYPE= \
		OXE_WIRE= OXE_ADDR="$([ "$index" = 0 ] || echo "10.99.0.$index")" OXE_PEER_ADDR= \
		OXE_DISK="$([ ! -e "$images/disk.img" ] || echo /run/oxe-root)" OXE_WORK_WAY=$way
	lay_drives
	drive work "$run/work.tar" readonly=on
	[ ! -e "$images/disk.img" ] || drive disk "$images/disk.img" snapshot=on
	machine=(-smp "$cpus" -cpu max)
	if [ -e "$images/debug" ]; then
		# See scripts/vm.
		machine=(-smp "$cpus" -cpu "max,-la57") kernel=debug memory=${memory:-3072}
		append=" rcupdate.rcu_cpu_stall_timeout=120"
	fi
	line=file,id=out,path=$here/out
	: >"$here/out"
}

# machine ROLE INDEX: one machine, to its end, in a shell of its own. The exit status is that of
# machine_status.
machine() {
	trap - EXIT INT TERM HUP
	exec {leash}>&- 5</dev/null
	told=$run/told
	# The limit is guest-run's matter; this one strikes when a machine hangs as a whole.
	limit=$((limit + 900))
	run_machine
	machine_status
}

# start ROLE INDEX
start() {
	new_machine "$1" "$2"
	set -m
	(echo $BASHPID >"$run/$1.pid"; machine) &
	set +m
	pids+=($!)
	# The next machine has its own.
	drives=() nic=() wires=() more=() append=''
}

# The machines' output: what each has written since the last time, with its name before each line.
declare -A outputs=() rests=()
show_output() { # ROLE [last]
	local text='' file=${outputs[$1]:-} before="$1: "
	if [ -z "$file" ]; then
		exec {file}<"$run/$1/out"
		outputs[$1]=$file
	fi
	[ "$1" != single ] || before=''
	while IFS= read -r text <&"$file"; do
		text=${rests[$1]:-}$text
		rests[$1]=''
		printf '%s\n' "$text" >>"$log/$1.out"
		printf '%s%s\n' "$before" "${text%$'\r'}"
	done
	rests[$1]=${rests[$1]:-}$text
	if [ "${2:-}" = last ] && [ -n "${rests[$1]}" ]; then
		printf '%s' "${rests[$1]}" >>"$log/$1.out"
		printf '%s%s\n' "$before" "${rests[$1]}"
	fi
}

# What one machine has told and the others are to know: facts are those tellings, in the order in
# which they came; heard says who has told something, and so listens.
facts=() first='' ups=0
declare -A heard=() ended=()
# order ROLE TEXT: to one machine. Its FIFO has a reader, or else does not hold up anyone.
order() {
	[ -z "${heard[$1]:-}" ] || echo "$2" 1<>"$run/$1/con.in"
}
# learn OF FACT: all machines but the one that it is about are to know this.
learn() {
	local role
	facts+=("$1 $2")
	for role in "${roles[@]}"; do
		[ "$role" = "$1" ] || order "$role" "tell $2"
	done
}
# hear ROLE WORD [STATUS]: a machine has told this. It is not trusted to keep to the form.
hear() {
	local fact
	[[ " ${roles[*]} " == *" $1 "* ]] || return 0
	if [ -z "${heard[$1]:-}" ]; then
		heard[$1]=1
		for fact in "${facts[@]}"; do
			[ "${fact%% *}" = "$1" ] || order "$1" "tell ${fact#* }"
		done
	fi
	case $2 in
	up)
		learn "$1" "$1.up 1"
		ups=$((ups + 1))
		[ $ups != ${#roles[@]} ] || : >"$run/ready"
		progress "$1 has ${type}0, 10.99.0.$(index_of "$1")${3:+, GID index ${3//[!0-9]/}}"
		;;
	listening)
		learn "$1" "listening 1"
		progress "$1 listens on port $port"
		;;
	status)
		[[ ${3:-} =~ ^([0-9]{1,3}|stopped)$ ]] && [ -z "${ended[$1]:-}" ] || return 0
		ended[$1]=$3
		[ "$3" = 0 ] || [ "$3" = stopped ] || first=${first:-$1}
		learn "$1" "$1.status $3"
		;;
	esac
}
index_of() {
	local i
	for i in "${!roles[@]}"; do
		[ "${roles[i]}" != "$1" ] || echo $((i + 1))
	done
}
# hear_all: what has been told since the last time.
hear_all() {
	local role word status
	while read -r _ role word status <&"$telling"; do
		hear "$role" "$word" "$status"
	done
}

# run_hosts: all machines, each to its end; $statuses are those of machine. A machine that ends
# before its program is known to have ended will not be heard of again.
run_hosts() {
	local i role status
	: >"$run/told"
	exec {telling}<"$run/told"
	began=$SECONDS
	for i in "${!roles[@]}"; do
		role=${roles[i]}
		rm -f "$log/$role".{out,dmesg,pcap,counters}
		: >"$log/$role.out"
		start "$role" $((i + 1))
	done
	statuses=("${roles[@]//*/}")
	while [[ " ${statuses[*]/#/x} " == *' x '* ]]; do
		hear_all
		[ ! -e "$run/down" ] || end_session
		for i in "${!roles[@]}"; do
			role=${roles[i]}
			show_output "$role"
			if [ -z "${statuses[i]}" ] && ! kill -0 "${pids[i]}" 2>/dev/null; then
				status=0
				wait "${pids[i]}" || status=$?
				statuses[i]=$status
				# Another process may have this number some day.
				rm -f "$run/$role.pid"
				hear_all
				show_output "$role" last
				[ -n "${ended[$role]:-}" ] || learn "$role" "stop 1"
			fi
		done
		sleep 0.2
	done
	pids=()
}

# build_in_guest LINE: in a machine without a device, over a copy of the directory; what it makes
# comes back there.
build_in_guest() {
	local status=0 line_of=$1 roles_of_hosts
	pack
	began=$SECONDS
	roles_of_hosts=("${roles[@]}") roles=(build)
	progress "building in a machine: $line_of"
	rm -f "$log"/build.{out,dmesg}
	: >"$log/build.out"
	: >"$run/told"
	building=$line_of
	start build 0
	building=''
	while kill -0 "${pids[0]}" 2>/dev/null; do
		show_output build
		sleep 0.2
	done
	wait "${pids[0]}" || status=$?
	show_output build last
	pids=()
	rm -f "$run/build.pid"
	keep_log build
	roles=("${roles_of_hosts[@]}")
	[ $status = 0 ] || {
		say "the line of --build failed with status $status: $line_of (its output is in" \
			"$log/build.out)"
		exit 126
	}
	bring_back "$run/build/back/work" "$directory" ||
		die "not all that --build made could be put into $directory: see tar's message"
	rm -rf "$run/build"
	progress "built"
}
