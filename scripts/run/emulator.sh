# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2120,SC2154 # some of these are for those who source this
#
# QEMU, as scripts start it on a host: how it runs, how it ends with them, and the wires between
# machines. Needs bash and coreutils, as oxe-run is to run anywhere, and of those who source this
# the functions say and die, and the array $emulator, the command that is QEMU. 6.2 is the least
# version; 7.2 and newer have a better wire.

# temporary NAME [LINE]: make the directory $run, for as long as this script lives. Another process
# waits for the script's end, which even SIGKILL brings about: it is the reader of a pipe that the
# script holds open. It then runs LINE, where $0 is the directory, and removes that. Children that
# outlive the script close ${leash}.
temporary() {
	local apart
	# Where util-linux is there, what ends the script's process group does not end that process.
	apart=$(type -P setsid || true)
	run=$(mktemp -d "/tmp/$1.XXXXXX")
	# shellcheck disable=SC2016 # for the shell in there
	exec {leash}> >(exec $apart bash -c 'trap "" INT TERM HUP; read -r _; '"${2:-}"'
		'"$(declare -f remove)"'; remove "$0"' "$run" >/dev/null 2>&1)
}

# remove PATH...: also what a process that dies still writes into.
remove() {
	local _
	for _ in {1..20}; do
		! rm -rf "$@" 2>/dev/null || return 0
		sleep 0.1
	done
	rm -rf "$@"
}

# why_no_kvm [DEVICE CPUINFO]: the reason why KVM is not usable, and what helps; nothing if it is.
# Where the CPU does not tell of virtualization, the device may be one that boots no stock kernel.
why_no_kvm() {
	local device=${1:-/dev/kvm} line flags=''
	while IFS= read -r line; do
		[[ $line != flags*:* ]] || { flags=" ${line#*: } "; break; }
	done <"${2:-/proc/cpuinfo}"
	if [ ! -e "$device" ]; then
		echo "there is no $device: load kvm_intel or kvm_amd, and see that the firmware" \
			"(in a virtual machine: its host) allows virtualization"
	elif ! { : <>"$device"; } 2>/dev/null; then
		echo "$device cannot be opened: get access to it (it is of the group" \
			"$(stat -c %G "$device"))"
	elif [[ $flags != *" vmx "* && $flags != *" svm "* ]]; then
		echo "this machine's CPU has neither vmx nor svm (in a virtual machine: its host" \
			"must allow nested virtualization)"
	fi
}

# accelerator [DEVICE CPUINFO]: how a machine runs: "kvm" where KVM is usable, else "tcg" (QEMU
# emulates the CPU). OXE_ACCEL=tcg and OXE_ACCEL=kvm decide it; kvm fails where it is not usable.
accelerator() {
	local reason
	case ${OXE_ACCEL:-} in
	tcg) echo tcg; return ;;
	kvm | '') ;;
	*) die "OXE_ACCEL=$OXE_ACCEL: kvm or tcg" ;;
	esac
	reason=$(why_no_kvm "$@")
	[ -z "${OXE_ACCEL:-}" ] || [ -z "$reason" ] ||
		die "OXE_ACCEL=kvm: $reason; or take OXE_ACCEL=tcg"
	[ -n "$reason" ] && echo tcg || echo kvm
}

# choose_accel: $accel, what QEMU takes for that. Unless the user asks for KVM, QEMU may emulate the
# CPU all the same.
choose_accel() {
	local kind
	kind=$(accelerator)
	accel=()
	[ "$kind" = tcg ] || accel+=(-accel kvm)
	[ "$kind" = kvm ] && [ "${OXE_ACCEL:-}" = kvm ] || accel+=(-accel "tcg,thread=multi")
	tell_emulation
}

# tell_emulation: where QEMU emulates the CPU for want of KVM, say so, once for each command of the
# user's.
tell_emulation() {
	[ -z "${OXE_TOLD_EMULATION:-}" ] || return 0
	export OXE_TOLD_EMULATION=1
	local reason
	reason=$(why_no_kvm)
	[ -n "${OXE_ACCEL:-}" ] || [ -z "$reason" ] ||
		say "QEMU emulates the CPU, 10 to 30 times slower than KVM would be: $reason"
}

# probe_qemu: $netdevs, the kinds of netdev that it has, a line each; and choose $wire_by, how
# machines are joined:
#   retry    a stream on a Unix socket; the client asks every 200 ms, or every second, until the
#            server is there
#   dgram    datagrams between two Unix sockets, as the client of a stream asks only once (QEMU 7.2)
#   socket   a stream on a TCP port of 127.0.0.1, and the client asks once (older than 7.2)
probe_qemu() {
	local version
	wire_by=retry retry=reconnect-ms=200
	version=$("${emulator[@]}" --version 2>/dev/null) || true
	[[ $version =~ (^|$'\n')"QEMU emulator version "([0-9.]+) ]] ||
		die "${emulator[*]} is not QEMU"
	version=${BASH_REMATCH[2]}
	at_least 6.2 || die "${emulator[*]} is QEMU $version: 6.2 is the oldest that will do"
	netdevs=$'\n'$("${emulator[@]}" -netdev help 2>&1)$'\n' || true
	if [[ $netdevs != *$'\nstream\n'* ]]; then
		wire_by=socket
	elif ! at_least 8.0; then
		wire_by=dgram
	elif ! at_least 9.2; then
		retry=reconnect=1
	fi
}
at_least() { [ "$(printf '%s\n' "$1" "$version" | sort -V | head -n 1)" = "$1" ]; }

# wire_end ROLE NAME [ID]: $netdev, what -netdev takes for this end (server or client) of the wire
# with that name, a path. A client that asks once waits here for the server.
wire_end() {
	local port id=${3:-wire}
	case $wire_by-$1 in
	socket-server)
		port=$(free_port)
		netdev=socket,id=$id,listen=127.0.0.1:$port
		echo "$port" >"$2"
		;;
	socket-client)
		await_listener "$2"
		netdev=socket,id=$id,connect=127.0.0.1:$(<"$2")
		;;
	dgram-*)
		netdev=dgram,id=$id,local.type=unix,local.path=$2.$1
		[ "$1" = server ] && netdev+=,remote.type=unix,remote.path=$2.client ||
			netdev+=,remote.type=unix,remote.path=$2.server
		;;
	*-server) netdev=stream,id=$id,server=on,addr.type=unix,addr.path=$2 ;;
	*) netdev=stream,id=$id,server=off,addr.type=unix,addr.path=$2,$retry ;;
	esac
}

# free_port: a TCP port, outside of those that the kernel hands out.
free_port() {
	local port
	for _ in {1..100}; do
		port=$((20000 + RANDOM % 12000))
		! tcp_listens "$port" || continue
		echo "$port"
		return
	done
	die "there is no free TCP port for the wire"
}
tcp_listens() {
	local address state wanted
	wanted=0100007F:$(printf %04X "$1")
	while read -r _ address _ state _; do
		[ "$address $state" != "$wanted 0A" ] || return 0
	done </proc/net/tcp
	return 1
}

await_listener() { # NAME
	local end=$((SECONDS + 300))
	until [ -s "$1" ] && tcp_listens "$(<"$1")"; do
		[ $SECONDS -lt $end ] ||
			die "the machine at the other end of the wire did not start in 300 s"
		sleep 0.2
	done
}
